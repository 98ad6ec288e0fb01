"""Tells one task of the log's news, as a rule without a turn of the scheduler: who moves the high watermark serves it.

Waking a task for each commit costs more than applying a small command.  So the task leaves a function for the time that
it waits, like the owner of a `ServedMailbox`, and `tell` calls it.  The function must not await.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio


class CommittedNews:
    """Owned by a log.  One task waits for the news: that which gives committed records to the application."""

    def __init__(self) -> None:
        self._serve: Callable[[], bool] | None = None
        """None unless the task waits, and is not being served."""
        self._waiting: trio.lowlevel.Task | None = None
        self._error: BaseException | None = None
        """What the task raises instead of returning from its wait."""
        self._is_held = False
        self._is_due = False

    async def wait(self, serve: Callable[[], bool]) -> None:
        """Wait for news that `serve` does not take care of.

        `serve` is called with all other news, in the step that makes them.  It returns whether it has done everything.
        What it raises, this raises.
        """
        self._waiting, self._serve = trio.lowlevel.current_task(), serve
        await trio.lowlevel.wait_task_rescheduled(self._end_wait)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _end_wait(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._waiting = self._serve = None
        return trio.lowlevel.Abort.SUCCEEDED

    def tell(self) -> None:
        """Serve the task that waits, if any, or wake it.  Never raises."""
        if self._is_held:
            self._is_due = True
        else:
            self._serve_or_wake()

    def _serve_or_wake(self) -> None:
        serve = self._serve
        if serve is None:
            return
        self._serve = None
        try:
            is_done = serve()
        except BaseException as error:
            self._error = error
            is_done = False
        if self._waiting is None:
            return
        if is_done:
            self._serve = serve
        else:
            waiting, self._waiting = self._waiting, None
            trio.lowlevel.reschedule(waiting)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep news back in this block, until `give`: for a task that has something more urgent to do first."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.give()

    def give(self) -> None:
        """Deliver the news held back."""
        if self._is_due:
            self._is_due = False
            self._serve_or_wake()
