"""A mailbox that has messages served without a turn of the scheduler while its owner waits for one.

`HandOver` says how, and why that is like a wake-up.  No message is served while one is queued, so messages keep their
order.  The owner answers what it finds in the mailbox when its epoch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

from kraft_trio.hand_over import HandOver

T = TypeVar("T")

SERVED_WHILE_WAITING: Final = 32
"""How many messages are served in one wait of the owner.  The next one wakes it, so that other tasks get their turn."""


class ServedMailbox(Generic[T]):
    """A bounded mailbox of one owner."""

    def __init__(self, size: int) -> None:
        self._sender, self._inbox = trio.open_memory_channel[T](size)
        self._owner = HandOver[T]()

    # Senders

    def send_nowait(self, message: T) -> None:
        """Have the message served, or queue it.

        Raises trio.WouldBlock if the mailbox is full, and trio.BrokenResourceError if it is closed.
        """
        if not self._owner.offer(message):
            self._sender.send_nowait(message)
            self._owner.wake()

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
        while True:
            await self._owner.wait(serve, SERVED_WHILE_WAITING)
            try:
                return self._inbox.receive_nowait()
            except trio.WouldBlock:
                continue  # Somebody has taken for the owner what woke it.

    # For the owner, also in the steps of others

    @property
    def queued(self) -> int:
        """The number of messages that are queued, without those of senders that wait for room."""
        return self._inbox.statistics().current_buffer_used

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
