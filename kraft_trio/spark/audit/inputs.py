"""Checks the input of an audit before Spark starts, so that wrong paths fail at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from kraft_trio.errors import ConfigError
from kraft_trio.spark.audit.check import CHECKS, Check
from kraft_trio.spark.audit.results import AuditInputError
from kraft_trio.spark.directories.replicas import find_replicas
from kraft_trio.spark.directories.trace_paths import trace_files


def check_inputs(directories: Sequence[str], traces: Sequence[str], checks: Collection[str] = ()) -> None:
    """Raises AuditInputError if no path leads to anything to audit, or a check is unknown or for other input.

    The message names the paths and problems.  If only some paths are bad, they become rows with `error`, which a check
    reports.
    """
    given = {source for source, paths in (("log", directories), ("metadata", directories), ("trace", traces)) if paths}
    other = [check.name for check in chosen(checks) if checks and check.source not in given]
    if other:
        what = "directories of replicas" if traces else "traces (--trace)"
        raise AuditInputError(f"check {', '.join(other)}: looks at other input than what is given; expected {what}")
    if not directories and not traces:
        raise AuditInputError("nothing to audit; expected directories of replicas, or traces")
    try:
        if directories:
            find_replicas(directories, allow_mixed_clusters=True)
        files = trace_files("", json.dumps(list(traces))) if traces else []
    except ConfigError as error:
        raise AuditInputError(f"nothing to audit: {error}") from error
    if files and all(file.problem for file in files):
        raise AuditInputError(f"nothing to audit: {'; '.join(f'{file.path}: {file.problem}' for file in files)}")


def chosen(names: Collection[str]) -> list[Check]:
    """The checks with these names, in order; all checks without names.  Raises AuditInputError."""
    known = {check.name for check in CHECKS}
    for name in names:
        if name not in known:
            raise AuditInputError(f"check {name}: unknown; expected one of {', '.join(sorted(known))}")
    return [check for check in CHECKS if not names or check.name in names]
