"""A progress bar on stderr.  It appears only on a terminal, and only for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from kraft_trio.cli.terminal.colors import is_terminal

QUIET_S: Final = 1.0
"""Work that finishes within this time shows no bar."""


class Bar(Protocol):
    """Counts finished work."""

    def advance(self, size_in_bytes: int) -> None: ...

    def reach(self, size_in_bytes: int, total_bytes: int) -> None:
        """Set the finished amount; it may go down."""
        ...


def stderr_console() -> Console:
    """For everything that moves the cursor.  FORCE_COLOR makes no terminal of a file, as rich would have it."""
    return Console(stderr=True, force_terminal=is_terminal(sys.stderr))


@contextmanager
def progress(what: str, total_bytes: int | None) -> Iterator[Bar]:
    """Show progress once the work has taken a second, if stderr is a terminal.  The bar disappears at the end.

    If `total_bytes` is None, the total is unknown so far.
    """
    console = stderr_console()
    bar = _Bar(what, total_bytes, console) if console.is_terminal else _NoBar()
    try:
        yield bar
    finally:
        bar.stop()


class _NoBar:
    def advance(self, size_in_bytes: int) -> None:
        pass

    def reach(self, size_in_bytes: int, total_bytes: int) -> None:
        pass

    def stop(self) -> None:
        pass


NO_BAR: Final[Bar] = _NoBar()


class _Bar:
    def __init__(self, what: str, total_bytes: int | None, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(what, total=total_bytes)
        self._began_s = time.monotonic()
        self._pending = 0
        self._shown = False

    def advance(self, size_in_bytes: int) -> None:
        self._pending += size_in_bytes
        if self._is_shown():
            self._progress.advance(self._task, self._pending)
            self._pending = 0

    def reach(self, size_in_bytes: int, total_bytes: int) -> None:
        if self._is_shown():
            self._progress.update(self._task, completed=size_in_bytes, total=total_bytes)

    def _is_shown(self) -> bool:
        if not self._shown and time.monotonic() - self._began_s >= QUIET_S:
            self._shown = True
            self._progress.start()
        return self._shown

    def stop(self) -> None:
        if self._shown:
            self._progress.stop()
