"""Output of `kraft simulate` while it runs: progress on stderr, violations on stdout."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.progress import stderr_console
from kraft_trio.simulation.campaign.campaign import Summary
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.faults.plan import Plan

LINE_EVERY_S: Final = 60.0
"""How often a line tells the progress where no bar can."""


class SeedsDisplay:
    """A progress bar on stderr, or a line a minute if that is no terminal; violations go to stdout as they happen."""

    def __init__(
        self, total: int, clock: Callable[[], float] = time.monotonic, *, tells_violations: bool = True
    ) -> None:
        self._tells_violations = tells_violations
        console = stderr_console()
        self._total, self._clock, self._told_at_s = total, clock, clock()
        self._is_told = not console.is_terminal and total > 1
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("seeds, {task.fields[hours]:.2f} virtual hours, {task.fields[violations]} violations"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal or total == 1,
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._progress.add_task("simulating", total=total, hours=0.0, violations=0)
        self._summary = Summary()

    def __enter__(self) -> SeedsDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def known(self, outcome: Outcome) -> None:
        """Count a run that an earlier process finished."""
        self._count(outcome)

    def ended(self, outcome: Outcome, replay: Callable[[int], str]) -> None:
        self._count(outcome)
        if outcome.failure is not None and self._tells_violations:
            # Hide the bar while a report is printed.
            self._progress.stop()
            for line in outcome.failure.lines(outcome.seed):
                echo_line(line)
            echo(f"run it again: {replay(outcome.seed)}")
            self._progress.start()

    def _count(self, outcome: Outcome) -> None:
        self._summary.add(outcome)
        hours, violations = self._summary.virtual_s / 3600, len(self._summary.violations)
        self._progress.update(self._task, advance=1, hours=hours, violations=violations)
        if self._is_told and self._clock() >= self._told_at_s + LINE_EVERY_S:
            self._told_at_s = self._clock()
            text = f"{self._summary.seeds} of {self._total} seeds, {hours:.2f} virtual hours, {violations} violations"
            echo(f"simulating: {text}", err=True)


class ShrinkDisplay:
    """Shows on stderr, if that is a terminal, how far the plan has shrunk."""

    def __init__(self) -> None:
        self._console = stderr_console()

    def __call__(self, plan: Plan, runs: int) -> None:
        if self._console.is_terminal:
            size = f"{len(plan.faults)} faults, {len(plan.header.nodes)} nodes"
            self._console.print(f"{runs} runs: {size}", end="\r", highlight=False)
