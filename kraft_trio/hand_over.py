"""Hands things to a task while it waits, usually without a turn of the scheduler.

Most messages, and most commits, find the task waiting that takes them.  Waking it takes a round of the scheduler, which
is a large part of the time that a commit takes.  So the task leaves a function while it waits, and
`offer` calls that function in the sender's step.  This is like a wake-up in which nothing else runs between
the two tasks, because

- the function does not await, and is called only while the task waits.  It is never called in a step of the task, or
  within another call;
- Trio ends the task's wait in the step that cancels it.  So nothing is served for an epoch that has ended (rule R1);
- `wait` raises the errors of the function, in the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class HandOver(Generic[T]):
    """Where one task waits, and has what others offer served in their steps."""

    __slots__ = ("_error", "_left", "_serve", "_task")

    def __init__(self) -> None:
        self._serve: Callable[[T], bool] | None = None
        """None unless the task waits and nothing is being served."""
        self._task: trio.lowlevel.Task | None = None
        """The task while it waits."""
        self._left = math.inf
        self._error: BaseException | None = None
        """What the task raises instead of returning from its wait."""

    @property
    def is_open(self) -> bool:
        """Whether the task waits, and nothing is being served."""
        return self._serve is not None

    async def wait(self, serve: Callable[[T], bool], limit: float = math.inf) -> None:
        """Wait until `wake`.  Until then, `serve` is called with what is offered, `limit` times at most.

        `serve` returns False, having done nothing, for what the task itself has to do.  What it raises, this raises.
        Cancelled at once, also while something is served.
        """
        self._task, self._serve, self._left = trio.lowlevel.current_task(), serve, limit
        await trio.lowlevel.wait_task_rescheduled(self._end_wait)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _end_wait(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = self._serve = None
        return trio.lowlevel.Abort.SUCCEEDED

    def offer(self, item: T) -> bool:
        """Have the item served in this step.  Returns False if the task is busy, or has to do that itself.

        Raises what `serve` raises only if the task was cancelled in this step; otherwise the task raises it.
        """
        serve = self._serve
        if serve is None or self._left <= 0:
            return False
        self._left -= 1
        self._serve = None
        try:
            is_served = serve(item)
        except BaseException as error:
            if self._task is None:
                raise
            self._error = error
            self.wake()
            return True
        if self._task is not None:
            self._serve = serve
        return is_served

    def wake(self) -> None:
        """End the wait, if the task waits.  Nothing is served until it waits again."""
        task, self._task, self._serve = self._task, None, None
        if task is not None:
            trio.lowlevel.reschedule(task)
