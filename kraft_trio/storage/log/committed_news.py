"""Reports the log's news to one task, as a rule in the step that moves the high watermark.

Waking a task for each commit costs more than applying a small command; `HandOver` says how that is avoided.  What
is noted in files is less urgent than some messages, and waits here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kraft_trio.hand_over import HandOver


class CommittedNews:
    """Owned by a log.  One task waits for the news: that which gives committed records to the application."""

    def __init__(self, note: Callable[[], object] = lambda: None) -> None:
        """`note` writes what the log has to note, if there is anything.  It never raises."""
        self._note = note
        self._task = HandOver[None]()
        self._error: BaseException | None = None
        """What was raised for the task after it had been cancelled."""
        self._is_held = False
        self._is_due = False

    async def wait(self, serve: Callable[[], bool]) -> None:
        """Wait for news that `serve` does not take care of.

        `serve` is called with all other news, in the step that makes them.  It returns whether it has done everything.
        What it raises, this raises.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        await self._task.wait(lambda _: serve())

    def tell(self) -> None:
        """Serve the task that waits, if any, or wake it.  Never raises."""
        if self._is_held:
            self._is_due = True
        else:
            self._serve_or_wake()

    def _serve_or_wake(self) -> None:
        try:
            if self._task.is_open and not self._task.offer(None):
                self._task.wake()
        except BaseException as error:
            self._error = error

    def note(self) -> None:
        """Have notes written: now, or, if news are held back, before those."""
        if not self._is_held:
            self._note()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold notes and news back in this block, until `give`: for a task that has to do something urgent first.

        The end of one block gives what another one holds.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.give()

    def give(self) -> None:
        """Have notes written, and deliver the news held back."""
        self._note()
        if self._is_due:
            self._is_due = False
            self._serve_or_wake()
