"""The audit: what the protocol promises, proved or disproved on logs, snapshots and traces (`kraft audit`).

Every check is one file of SQL in `checks/`, over the tables of the data sources and over the views of `views/`.
"""

from kraft_trio.spark.audit.audit import Audit, audit
from kraft_trio.spark.audit.check import CHECKS, Check
from kraft_trio.spark.audit.results import AuditInputError, Result, Violation

__all__ = ["CHECKS", "Audit", "AuditInputError", "Check", "Result", "Violation", "audit"]
