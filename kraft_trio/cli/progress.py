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


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Bar]:
    """Shows how far it is once it has taken a second, if stderr is a terminal; gone again at the end."""
    console = Console(stderr=True)
    bar = _Bar(what, total_bytes, console) if console.is_terminal else _NoBar()
    try:
        yield bar
    finally:
        bar.stop()


class _NoBar:
    def advance(self, size_in_bytes: int) -> None:
        pass

    def stop(self) -> None:
        pass


class _Bar:
    def __init__(self, what: str, total_bytes: int, console: Console) -> None:
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
        if not self._shown:
            if time.monotonic() - self._began_s < QUIET_S:
                return
            self._shown = True
            self._progress.start()
        self._progress.advance(self._task, self._pending)
        self._pending = 0

    def stop(self) -> None:
        if self._shown:
            self._progress.stop()
