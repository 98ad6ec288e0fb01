"""`kraft audit`: checks the protocol's guarantees with Spark, on replicas' directories or on traces."""

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
@click.option("--trace", "are_traces", is_flag=True, help="The paths are traces, not replicas' directories.")
@click.option("--out", metavar="DIR", help="Append the results to Parquet tables in DIR, and write a report there.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Run only this check; may be repeated.")
def audit(paths: Sequence[str], are_traces: bool, out: str | None, master: str, checks: Sequence[str]) -> int:
    """Audit replicas' directories, or traces.

    DIR is a node's metadata.log.dir, or a copy of it; globs and URLs work too.  The replicas may belong to several
    clusters.  The audit checks every guarantee that the data can show, and reports each violation with the two facts
    that contradict each other.

    The exit code is 1 if a check is violated, 2 if the audit could not run.  Warnings do not change it.
    """
    try:
        found = _audit(paths, are_traces, out, master, checks)
    except OSError as error:
        # This exit code differs from 1, because no check has been violated.
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
    # Report bad input before spending seconds on starting Spark.
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
            # Print the results even if storing them failed.
            show(found)
    return found


def _made(out: str) -> Path:
    """Create the output directory.  Raises AuditInputError if that is impossible."""
    from kraft_trio.spark.audit import AuditInputError

    if "://" in out:
        raise AuditInputError(f"--out {out}: is a URL; expected a directory")
    folder = Path(out)
    try:
        folder.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise AuditInputError(f"--out {out}: {error.strerror}; expected a directory") from error
    return folder
