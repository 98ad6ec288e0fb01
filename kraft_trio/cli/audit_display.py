"""Output of `kraft audit`: progress on stderr, and the results on stdout."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kraft_trio.cli.terminal.json_option import echo_json
from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.output import counted, echo, echo_line
from kraft_trio.cli.terminal.progress import stderr_console

if TYPE_CHECKING:
    from kraft_trio.spark.audit import Audit, ReplicaSummary

MOST_SHOWN: Final = 20
"""Most violations, and most repairs, that are printed; the rest of the violations are only counted."""
MOST_REPLICAS: Final = 40
"""Most replicas that are listed; `--json` has all of them."""
MOST_CLUSTERS: Final = 40
"""Most clusters that are listed; `--out` stores all of them."""


LINE_EVERY_S: Final = 60.0
"""How often a line tells the progress where no bar can."""


class AuditProgress:
    """A progress bar on stderr, or a line a minute if that is no terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        console = stderr_console()
        self._clock, self._told_at_s = clock, clock()
        self._is_told = not console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("starting Spark", total=None)

    def __enter__(self) -> AuditProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar."""
        self._progress.stop()

    def next(self, what: str, done: int, total: int) -> None:
        """Show that step `what` is running, after `done` of `total` steps."""
        self._progress.update(self._task, description=what.replace("_", " "), completed=done, total=total)
        if self._is_told and self._clock() >= self._told_at_s + LINE_EVERY_S:
            self._told_at_s = self._clock()
            echo(f"audit: {done} of {total} steps, next is {what}", err=True)


def show_json(found: Audit, report: str | None) -> None:
    """Print all of it as one JSON value; `report` is the path or URL of the report, if there is one."""
    value = {
        "runId": found.run_id,
        "auditedAt": found.audited_at.isoformat(),
        "errors": found.errors,
        "warnings": found.warnings,
        "report": report,
        "clusters": [
            {
                "cluster": one.cluster,
                "passed": one.passed,
                "nothingToSee": one.without,
                "errors": one.errors,
                "warnings": one.warnings,
            }
            for one in found.clusters
        ],
        "replicas": [
            {
                "cluster": one.cluster,
                "directory": one.directory,
                "nodeId": one.node,
                "directoryId": one.directory_id,
                "isVoter": one.is_voter,
                "logStart": one.log_start,
                "logEnd": one.log_end,
                "epoch": one.epoch,
                "lag": one.lag,
                "snapshotEnd": one.snapshot_end,
                "snapshotEpoch": one.snapshot_epoch,
                "error": one.error,
            }
            for one in found.replicas
        ],
        "violations": [
            {
                "check": one.check,
                "severity": one.severity,
                "cluster": one.cluster,
                "subject": one.subject,
                "factA": one.fact_a,
                "factB": one.fact_b,
            }
            for one in found.violations
        ],
        "repairs": [
            {
                "cluster": one.cluster,
                "directory": one.directory,
                "place": one.place,
                "holders": one.holders,
                "command": one.command,
            }
            for one in found.repairs
        ],
    }
    echo_json(value)


def show(found: Audit) -> None:
    """Print a line per cluster and per replica, the violations and the totals."""
    rows = [
        (one.cluster, str(one.passed), str(one.without), str(one.errors), str(one.warnings))
        for one in found.clusters[:MOST_CLUSTERS]
    ]
    echo(table([("cluster", "passed", "nothing to see", "errors", "warnings"), *rows]))
    if len(found.clusters) > MOST_CLUSTERS:
        echo(f"… and {counted(len(found.clusters) - MOST_CLUSTERS, 'cluster')} more")
    if found.replicas:
        echo(table([_REPLICA_TITLES, *map(_replica, found.replicas[:MOST_REPLICAS])]))
    if len(found.replicas) > MOST_REPLICAS:
        echo(f"… and {counted(len(found.replicas) - MOST_REPLICAS, 'replica')} more")
    for violation in found.violations[:MOST_SHOWN]:
        echo_line(f"{violation.severity}: {violation.check}: {violation}")
    left = found.errors + found.warnings - len(found.violations[:MOST_SHOWN])
    if left:
        echo(f"… and {counted(left, 'violation')} more")
    for repair in found.repairs[:MOST_SHOWN]:
        echo_line(f"repair: {repair}")
    checks = len({result.check for result in found.results})
    echo(
        f"{counted(len(found.clusters), 'cluster')}, {counted(checks, 'check')}: "
        f"{counted(found.errors, 'error')}, {counted(found.warnings, 'warning')}"
    )


_REPLICA_TITLES: Final = (
    *("node", "directory id", "cluster", "voter", "log start", "log end", "epoch", "lag", "newest snapshot"),
    "directory",
)


def _replica(one: ReplicaSummary) -> tuple[str, ...]:
    is_known = one.snapshot_end is not None and one.snapshot_epoch is not None
    snapshot = f"{one.snapshot_end}@{one.snapshot_epoch}" if is_known else None
    numbers = (one.log_start, one.log_end, one.epoch, one.lag)
    cells = (one.node, one.directory_id, one.cluster, "yes" if one.is_voter else "no", *numbers, snapshot)
    return (*("-" if cell is None else str(cell) for cell in cells), one.directory)
