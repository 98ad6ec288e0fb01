"""A bar on stderr for what takes longer than a second; nothing where nobody looks, and nothing for what is quick."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

QUIET_S: Final = 1.0
"""What is done by then needs no bar."""


class Bar(Protocol):
    """Counts what is done."""

    def advance(self, size_in_bytes: int) -> None: ...

    def reach(self, size_in_bytes: int, total_bytes: int) -> None:
        """So much is done in all, of a total that was not known before; also less than before."""
        ...


@contextmanager
def progress(what: str, total_bytes: int | None) -> Iterator[Bar]:
    """Shows how far it is once it has taken a second, if stderr is a terminal; gone again at the end.

    `total_bytes` None: not known yet.
    """
    console = Console(stderr=True)
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
