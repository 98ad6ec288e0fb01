"""A mailbox that has messages served without a turn of the scheduler while its owner waits for one.

Most messages find their owner waiting.  Waking it takes a round of the scheduler, which is a large part of the time
that a commit takes.  So the owner leaves a function for the time that it waits, and `send` calls it.  This is like a
wake-up in which nothing else runs between the two tasks, because

- the function does not await, and is called only while the owner waits in `receive`.  It is never called in a step of
  the owner, within another call, or while a message is queued, so messages keep their order;
- Trio ends the owner's wait in the step that cancels it.  Messages are queued from then on.  So nothing is served for
  an epoch that has ended (rule R1), and the owner answers what it finds in the mailbox;
- `receive` raises the errors of the function, in the owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")

SERVED_WHILE_WAITING: Final = 32
"""How many messages are served in one wait of the owner.  The next one wakes it, so that other tasks get their turn."""


class ServedMailbox(Generic[T]):
    """A bounded mailbox of one owner."""

    def __init__(self, size: int) -> None:
        self._sender, self._inbox = trio.open_memory_channel[T](size)
        self._serve: Callable[[T], bool] | None = None
        """None unless the owner waits and no message is being served."""
        self._owner: trio.lowlevel.Task | None = None
        """The owner while it waits."""
        self._left = 0
        self._error: BaseException | None = None
        """What the owner raises instead of returning from its wait."""

    # Senders

    def send_nowait(self, message: T) -> None:
        """Have the message served, or queue it.

        Raises trio.WouldBlock if the mailbox is full, and trio.BrokenResourceError if it is closed.
        """
        serve = self._serve
        if serve is not None and self._is_served(serve, message):
            return
        self._sender.send_nowait(message)
        self._wake()

    async def send(self, message: T) -> None:
        """Like `send_nowait`, but wait while the mailbox is full.  Always a checkpoint."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.send_nowait(message)
        except trio.WouldBlock:
            # The owner does not wait, and takes this from the sender.
            await self._sender.send(message)
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _is_served(self, serve: Callable[[T], bool], message: T) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        self._serve = None
        try:
            is_served = serve(message)
        except BaseException as error:
            if self._owner is None:
                raise
            self._error = error
            self._wake()
            return True
        if self._owner is not None:
            self._serve = serve
        return is_served

    def _wake(self) -> None:
        owner, self._owner, self._serve = self._owner, None, None
        if owner is not None:
            trio.lowlevel.reschedule(owner)

    # The owner

    async def receive(self, serve: Callable[[T], bool]) -> T:
        """Return the next message that `serve` does not serve.  Always a checkpoint.

        Until there is one, `serve` is called with each message, in the step of its sender.  It returns False, having
        done nothing, for a message that is to be queued.  Raises what it raises.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            message = self._inbox.receive_nowait()
        except trio.WouldBlock:
            pass
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return message
        self._owner, self._serve, self._left = trio.lowlevel.current_task(), serve, SERVED_WHILE_WAITING
        await trio.lowlevel.wait_task_rescheduled(self._end_wait)
        if self._error is not None:
            raise self._error
        return self._inbox.receive_nowait()

    def _end_wait(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._owner = self._serve = None
        return trio.lowlevel.Abort.SUCCEEDED

    def receive_nowait(self) -> T:
        """The next queued message.  Raises trio.WouldBlock if there is none."""
        return self._inbox.receive_nowait()

    def close(self) -> list[T]:
        """Refuse messages from now on, and return those that are queued, also by senders that wait for room."""
        messages = []
        while True:
            try:
                messages.append(self._inbox.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                self._inbox.close()
                return messages
