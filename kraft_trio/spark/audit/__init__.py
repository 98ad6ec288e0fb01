"""The audit (`kraft audit`): checks the protocol's guarantees on logs, snapshots and traces.

Every check is one SQL file in `checks/`, on the tables of the data sources and the views in `views/`.
"""

from kraft_trio.spark.audit.audit import Audit, audit
from kraft_trio.spark.audit.check import CHECKS, Check
from kraft_trio.spark.audit.results import AuditInputError, ReplicaSummary, Result, Violation
from kraft_trio.spark.audit.tables import Limits

__all__ = ["CHECKS", "Audit", "AuditInputError", "Check", "Limits", "ReplicaSummary", "Result", "Violation", "audit"]
