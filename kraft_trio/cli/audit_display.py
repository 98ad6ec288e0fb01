"""Output of `kraft audit`: a progress bar on stderr if that is a terminal, and the results on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.output import counted, echo, echo_line

if TYPE_CHECKING:
    from kraft_trio.spark.audit import Audit

MOST_SHOWN: Final = 20
"""Most violations, and most repairs, that are printed; the rest of the violations are only counted."""
MOST_CLUSTERS: Final = 40
"""Most clusters that are listed; `--out` stores all of them."""


class AuditProgress:
    """A progress bar on stderr, shown only on a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
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


def show(found: Audit) -> None:
    """Print a line per cluster, the violations and the totals."""
    rows = [
        (one.cluster, str(one.passed), str(one.without), str(one.errors), str(one.warnings))
        for one in found.clusters[:MOST_CLUSTERS]
    ]
    echo(table([("cluster", "passed", "nothing to see", "errors", "warnings"), *rows]))
    if len(found.clusters) > MOST_CLUSTERS:
        echo(f"… and {counted(len(found.clusters) - MOST_CLUSTERS, 'cluster')} more")
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
