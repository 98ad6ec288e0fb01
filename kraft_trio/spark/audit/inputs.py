"""What is given to an audit, looked at before Spark is: nothing but wrong paths is an error at once."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kraft_trio.errors import ConfigError
from kraft_trio.spark.audit.results import AuditInputError
from kraft_trio.spark.replicas import find_replicas
from kraft_trio.spark.trace_paths import trace_files


def check_inputs(directories: Sequence[str], traces: Sequence[str]) -> None:
    """Raises AuditInputError where none of the paths leads to something to audit, naming them and what is wrong.

    Where some do, the others become rows with `error`, which a check tells.
    """
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
