"""`kraft audit`: what the protocol promises, proved or disproved with Spark on directories of replicas or on traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraft_trio.cli.audit_display import AuditProgress, show
from kraft_trio.cli.output import echo
from kraft_trio.cli.quiet_spark import SparkFailedError, quiet_session
from kraft_trio.errors import KraftError
from kraft_trio.storage.created_files import DIRECTORY_MODE

if TYPE_CHECKING:
    from kraft_trio.spark.audit import Audit


class SparkMissingError(KraftError):
    """The extra `spark` is not installed."""

    exit_code = 2


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR...")
@click.option("--trace", "are_traces", is_flag=True, help="The paths are traces, not directories of replicas.")
@click.option("--out", metavar="DIR", help="Append what is found to Parquet tables there, and write a report.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Run this check only; may be given again.")
def audit(paths: Sequence[str], are_traces: bool, out: str | None, master: str, checks: Sequence[str]) -> int:
    """Audit the logs, snapshots and states of any number of replicas, or traces of runs, of any number of clusters.

    A DIR is what a node has as metadata.log.dir, or a copy of it; paths may be globs and URLs.  Every promise of the
    protocol that they can show is checked, and what contradicts it is told with its two facts.

    Exit code 1 when a check is violated, 2 when there is nothing to audit, or it cannot be; warnings change nothing.
    """
    try:
        found = _audit(paths, are_traces, out, master, checks)
    except OSError as error:
        # An exit code of its own: nothing has been violated.
        raise SparkFailedError(f"{error.filename or 'the audit'}: {error.strerror or error}") from error
    return 1 if found.errors else 0


def _audit(paths: Sequence[str], are_traces: bool, out: str | None, master: str, checks: Sequence[str]) -> Audit:
    try:
        from kraft_trio.spark.audit import audit as run
        from kraft_trio.spark.audit.inputs import check_inputs
        from kraft_trio.spark.audit.report import write_report
        from kraft_trio.spark.audit.store import append_history
    except ImportError as error:
        raise SparkMissingError(
            f"{error.name}: not installed; expected the extra spark (pip install 'kraft-trio[spark]')"
        ) from error
    directories, traces = ((), paths) if are_traces else (paths, ())
    # What is wrong with them is said before Spark has been started.
    check_inputs(directories, traces, checks)
    folder = None if out is None else _made(out)
    with AuditProgress() as progress, quiet_session(master, "kraft audit") as spark:
        found = run(
            spark,
            directories=directories,
            traces=traces,
            checks=checks or None,
            with_figures=folder is not None,
            on_progress=progress.next,
        )
        progress.stop()
        try:
            if folder is not None:
                append_history(spark, found, str(folder.absolute()))
                path = folder / f"report-{found.run_id}.html"
                write_report(found, path)
                echo(f"report: {path}")
        finally:
            # Also where it cannot be kept.
            show(found)
    return found


def _made(out: str) -> Path:
    """The directory for what is kept.  Raises AuditInputError where there can be none."""
    from kraft_trio.spark.audit import AuditInputError

    if "://" in out:
        raise AuditInputError(f"--out {out}: is a URL; expected a directory")
    folder = Path(out)
    try:
        folder.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise AuditInputError(f"--out {out}: {error.strerror}; expected a directory") from error
    return folder
