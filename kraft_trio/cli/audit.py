"""`kraft audit`: checks the protocol's guarantees on replicas' directories or on traces, with Spark or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from kraft_trio.cli.audit_display import AuditProgress, show, show_json
from kraft_trio.cli.terminal.json_option import json_option
from kraft_trio.cli.terminal.output import echo
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.quiet_spark import quiet_session
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.key import MAX_INT32, MAX_INT64
from kraft_trio.errors import KraftError, StorageError
from kraft_trio.extras import MissingExtraError, needing
from kraft_trio.storage.disk.created_files import DIRECTORY_MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

_THIS_MACHINE: Final = "local[*]"


class AuditFailedError(KraftError):
    """The audit ended before its checks did, or its results could not be kept."""

    exit_code = 2


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR…", type=NamedPath())
@click.option("--trace", "are_traces", is_flag=True, help="The paths are traces, not replicas' directories.")
@click.option(
    "--out",
    metavar="DIR",
    type=NamedPath(),
    help="Append the results to Parquet tables in DIR, a path or URL, and write a report there.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    help="What runs the audit: DuckDB in this process, or Spark.  By default, DuckDB if the data fits in memory, and "
    "Spark for the rest, for traces and with --master.",
)
@click.option("--master", metavar="URL", help="Audit with Spark at this master.  Default: local[*].")
@click.option(
    "--scratch",
    metavar="DIR",
    type=NamedPath(),
    help="Spark keeps decoded data in a new folder in DIR, a path or URL that executors share.  By default, TMPDIR.",
)
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Run only this check; may be repeated.")
@click.option(
    "--expect-voters",
    type=WholeNumber(1, MAX_INT32),
    metavar="N",
    help="It is an error if fewer than N voters of a cluster have a directory.",
)
@click.option(
    "--max-lag",
    type=WholeNumber(0, MAX_INT64),
    metavar="OFFSETS",
    help="It is an error if a replica ends more offsets before the longest log of its cluster.  By default, it is a "
    "warning beyond 100 offsets and a tenth of that log.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 1 for warnings, too.",
)
@json_option
def audit(fail_on: str, **given: Any) -> int:
    """Audit replicas' directories, or traces.

    DIR is a node's metadata.log.dir, or a copy of it; globs and URLs work too.  The replicas may belong to several
    clusters.  The audit checks every guarantee that the data can show, and reports each violation with the two facts
    that contradict each other.

    The exit code is 1 if a check is violated, 2 if the audit could not run.  Warnings change it with --fail-on warning.

    \b
    Example:
      kraft audit --expect-voters 3 'copies/node-*'
    """
    request = _Request(**given)
    if request.engine == "duckdb" and (request.are_traces or request.master is not None):
        other = "--trace" if request.are_traces else f"--master {request.master}"
        raise click.UsageError(f"--engine duckdb: {other} is for Spark; expected one of the two")
    try:
        found = _audit(request)
    except BrokenPipeError:
        raise
    except OSError as error:
        # This exit code differs from 1, because no check has been violated.
        raise AuditFailedError(f"{error.filename or 'the audit'}: {error.strerror or error}") from error
    return 1 if found.fails(fail_on) else 0


@attrs.frozen(kw_only=True)
class _Request:
    """The command line."""

    paths: Sequence[str]
    are_traces: bool
    out: str | None
    engine: str | None
    master: str | None
    scratch: str | None
    checks: Sequence[str]
    expect_voters: int | None
    max_lag: int | None
    as_json: bool


def _audit(request: _Request) -> Audit:
    with needing("audit", "kraft audit"):
        from kraft_trio.spark.audit import Limits
        from kraft_trio.spark.audit import audit as run
        from kraft_trio.spark.audit.inputs import check_inputs
        from kraft_trio.spark.audit.scratch import url_of
        from kraft_trio.spark.audit.store import append_history, write_file
    directories, traces = ((), request.paths) if request.are_traces else (request.paths, ())
    # Report bad input before spending seconds on starting Spark.
    check_inputs(directories, traces, request.checks)
    master, out = _master(request), request.out
    if out is not None:
        _check_out(out)
    with AuditProgress() as progress, _session(master) as spark:
        found = run(
            spark,
            directories=directories,
            traces=traces,
            checks=request.checks or None,
            with_figures=out is not None,
            limits=Limits(request.max_lag, request.expect_voters),
            scratch=request.scratch,
            on_progress=progress.next,
        )
        progress.stop()
        report_path: str | None = None
        try:
            if out is not None:
                from kraft_trio.spark.audit.report import report

                folder = out.rstrip("/") if spark is None else url_of(out)
                append_history(spark, found, folder)
                name = f"report-{found.run_id}.html"
                write_file(spark, folder, name, report(found).encode())
                report_path = f"{out.rstrip('/')}/{name}"
                if not request.as_json:
                    echo(f"report: {report_path}")
        finally:
            # Print the results even if storing them failed.
            if request.as_json:
                show_json(found, report_path)
            else:
                show(found)
    return found


def _master(request: _Request) -> str | None:
    """The master of Spark; None for DuckDB.  Raises MissingExtraError if only Spark would do."""
    has_spark = find_spec("pyspark") is not None
    needs_spark = request.are_traces or request.engine == "spark" or request.master is not None
    if needs_spark and not has_spark:
        raise MissingExtraError("kraft audit with Spark", "pyspark", "spark")
    if not needs_spark and request.engine is None and has_spark:
        from kraft_trio.spark.audit.choice import fits_in_memory

        needs_spark = not fits_in_memory(request.paths)
    return (request.master or _THIS_MACHINE) if needs_spark else None


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession | None]:
    """A session at that master, or None without one."""
    if master is None:
        from duckdb import Error

        try:
            yield None
        except (StorageError, Error) as error:
            raise AuditFailedError(str(error).partition("\n")[0]) from error
        return
    with quiet_session(master, "kraft audit") as spark:
        yield spark


def _check_out(out: str) -> None:
    """Create the output directory, unless it is a URL.  Raises AuditInputError if that is impossible."""
    from kraft_trio.spark.audit import AuditInputError

    if "://" in out:
        return
    try:
        Path(out).mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise AuditInputError(f"--out {out}: {error.strerror}; expected a directory or a URL") from error
