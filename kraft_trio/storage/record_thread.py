"""Where records are checked and decoded that take longer than the event loop may wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs short jobs, each in its turn."""

    async def run(self, job: Callable[[], T]) -> T:
        """What the job returns; raises what it raises.  A cancelled caller waits for the job that has begun."""
        ...


class RecordThread:
    """Runs jobs in worker threads, two at a time, under a limit of its own: nothing else waits for records, nor do
    they for anything else.  While jobs run in pure Python the loop gets the interpreter back between two of them.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(2)

    async def run(self, job: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(job, limiter=self._limiter)


class InLoop:
    """Runs jobs where they are asked for: the simulator has one thread, whose order of steps one seed decides."""

    async def run(self, job: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return job()
