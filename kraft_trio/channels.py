"""What actors use in addition to Trio's memory channels: a one-slot channel for an answer, and helpers for
mailboxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import trio

T = TypeVar("T")
M_contra = TypeVar("M_contra", contravariant=True)


class Reply(Generic[T]):
    """A one-slot channel for the answer to one message.

    The receiver of a message always answers, and exactly once: an actor that ends answers the messages that it still
    holds.  The sender waits in `receive` or registers a callback.  A sender that no longer needs the answer calls
    `abandon`; the receiver may then drop the message instead of answering it.
    """

    __slots__ = ("_abandoned", "_listeners", "_value", "is_abandoned", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self._abandoned: Callable[[], object] | None = None
        self.is_abandoned = False
        """Whether the sender no longer waits for the answer."""
        self._listeners: list[Callable[[], object]] = []
        self._value: T

    def answer(self, value: T) -> None:
        """Give the answer, and call the callbacks before this returns."""
        assert not self.is_answered, "a message is answered once"
        self._value = value
        self.is_answered = True
        # The callback may refer to this reply.  The cycle would keep the message until the garbage collector runs.
        self._abandoned = None
        for listener in self._listeners:
            listener()
        self._listeners.clear()

    @property
    def value(self) -> T:
        """The answer.  There must be one already."""
        assert self.is_answered, "not answered yet"
        return self._value

    def when_answered(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the answer comes, or now if it is there.  `listener` must neither block nor fail."""
        if self.is_answered:
            listener()
        else:
            self._listeners.append(listener)

    def abandon(self) -> None:
        """Stop waiting for the answer, and tell the receiver unless it has answered.

        Only the sender calls this, and at most once.
        """
        self.is_abandoned = True
        self._listeners.clear()
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None:
            abandoned()

    def when_abandoned(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the sender stops waiting, or now if it has.  `listener` must neither block nor fail.

        For a receiver that keeps the message for long and could drop it.
        """
        self._abandoned = listener
        if self.is_abandoned:
            listener()

    async def receive(self) -> T:
        """Wait for the answer."""
        if not self.is_answered:
            arrived = trio.Event()
            self._listeners.append(arrived.set)
            await arrived.wait()
        return self._value


class Mailbox(Protocol[M_contra]):
    """The senders' side of a mailbox: a memory channel or a ServedMailbox."""

    def send_nowait(self, value: M_contra, /) -> None:
        """Raises trio.WouldBlock if there is no room, trio.BrokenResourceError if the mailbox is closed."""

    async def send(self, value: M_contra, /) -> None:
        """Wait while there is no room.  Raises trio.BrokenResourceError if the mailbox is closed."""


async def deliver(mailbox: Mailbox[T] | None, message: T) -> bool:
    """Put a message into the mailbox of one of the leader's actors.  False if this node does not lead.

    Waits while the mailbox is full.
    """
    if mailbox is None:
        return False
    try:
        try:
            mailbox.send_nowait(message)
        except trio.WouldBlock:
            await mailbox.send(message)
    except trio.BrokenResourceError:
        return False
    return True


async def send_or_wait(channel: Mailbox[T], value: T) -> None:
    """Send, and wait only if the channel is full.  `send` always takes a round of the scheduler.

    For hot paths whose loop has another checkpoint.  Raises what `send` raises.
    """
    try:
        channel.send_nowait(value)
    except trio.WouldBlock:
        await channel.send(value)


def drain(mailbox: trio.MemoryReceiveChannel[T]) -> list[T]:
    """Take all messages from a mailbox, including those of senders that wait for room.  Never waits."""
    messages = []
    while True:
        try:
            messages.append(mailbox.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            return messages
