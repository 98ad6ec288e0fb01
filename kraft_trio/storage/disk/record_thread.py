"""Runs long checks and decodings of records off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs jobs off the event loop, or in it."""

    async def run(self, job: Callable[[], T]) -> T:
        """Run the job; return or raise what it does.  A cancelled caller waits for a job that has started."""
        ...


class RecordThread:
    """Runs jobs in worker threads, two at a time.  Its own limit keeps them apart from other work.

    While jobs run in pure Python, the event loop gets the interpreter back between two of them.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(2)

    async def run(self, job: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(job, limiter=self._limiter)


class InLoop:
    """Runs jobs in the event loop.  The simulator has only one thread, so that a seed decides the order of steps."""

    async def run(self, job: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return job()
