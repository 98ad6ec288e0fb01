"""`SimulatedStream`: one end of a simulated TCP connection."""

from __future__ import annotations

from math import inf
from typing import Final, Protocol

import trio

from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.deterministic import Timer, current_time
from kraft_trio.simulation.network.link import GIVE_UP_S, Link
from kraft_trio.simulation.network.message import FrameSplitter, Message, request_start, response_start
from kraft_trio.simulation.network.pipe import Pipe
from kraft_trio.wire.network import ImmediateStream

RECEIVE_BYTES: Final = 64 * 1024


class Carrier(Protocol):
    """What streams need of the network that carries their bytes."""

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another."""
        ...

    def is_up(self, host: str) -> bool:
        """Whether the machine is on."""
        ...

    def next_message_number(self) -> int: ...

    def send(self, end: SimulatedStream, data: bytes, message: Message | None) -> None:
        """Send bytes that end with the frame of `message`; without a message, they end within a frame."""
        ...

    def report(self, message: Message) -> None:
        """Tell the observer of a message that was sent or delivered."""
        ...

    def forget(self, connection: SimulatedConnection) -> None:
        """Both ends are closed."""
        ...


class SimulatedConnection:
    """Two ends, two pipes, and the unanswered requests."""

    def __init__(self, network: Carrier, number: int, opener: str, acceptor: str) -> None:
        self.network = network
        self.number = number
        there = Pipe(network.link(opener, acceptor), number, carries_requests=True)
        back = Pipe(network.link(acceptor, opener), number, carries_requests=False)
        there.reverse, back.reverse = back, there
        self.opener_end = SimulatedStream(self, there, back)
        self.acceptor_end = SimulatedStream(self, back, there)
        there.target, back.target = self.acceptor_end, self.opener_end
        self.endpoint = Endpoint(acceptor, 0)
        """The endpoint to which it was opened."""
        self.unanswered: dict[int, Message] = {}
        """By correlation id, in the order they were sent."""

    @property
    def ends(self) -> tuple[SimulatedStream, SimulatedStream]:
        return self.opener_end, self.acceptor_end

    def answered_by(self, correlation_id: int) -> Message | None:
        """The request that a response with that id answers.  Earlier requests get no answer any more (acks=0)."""
        if correlation_id not in self.unanswered:
            return None
        while True:
            request = self.unanswered.pop(next(iter(self.unanswered)))
            if request.correlation_id == correlation_id:
                return request

    def be_ghost(self) -> None:
        """Let the network hold the opener's end.  Nobody reads it, and the first response closes it."""
        self.opener_end.is_ghost = True
        self.acceptor_end.give_up_later()

    def reset(self) -> None:
        """Let both ends see a reset, after the data in flight."""
        for end in self.ends:
            end.outgoing.reset()

    def forget_if_closed(self) -> None:
        if all(end.is_closed for end in self.ends):
            self.network.forget(self)


class SimulatedStream(ImmediateStream):
    """One task may send and one may receive at a time.

    A waiting reader is woken once, when its data arrives or the connection breaks.
    """

    def __init__(self, connection: SimulatedConnection, outgoing: Pipe, incoming: Pipe) -> None:
        self.connection = connection
        self.outgoing = outgoing
        self.incoming = incoming
        self.peer_host = incoming.link.source
        self.is_closed = False
        """Whether its owner has closed it or has died."""
        self.is_ghost = False
        """Whether the network holds this end, and nobody reads from it."""
        self._is_dead = False
        self._given_up_at = inf
        self._splitter = FrameSplitter()
        self._readable = Timer()
        self._writable = Timer()

    @property
    def host(self) -> str:
        return self.outgoing.link.source

    def peer_has_closed(self) -> bool:
        return self.incoming.has_ended(current_time())

    # Sending

    def send_now(self, *parts: bytes | memoryview) -> int:
        if self.is_closed:
            raise self._why_closed()
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.incoming.reset_at <= (now := current_time()) or self._given_up_at <= now:
            raise trio.BrokenResourceError("the connection was reset or given up")
        taken = min(len(data), self.outgoing.room)
        if taken <= 0:
            return 0
        for piece, frame in self._splitter.split(bytes(data if taken == len(data) else data[:taken])):
            self.connection.network.send(self, piece, None if frame is None else self._message(frame, now))
        return taken

    def _message(self, frame: bytes, now: float) -> Message | None:
        link, connection = self.outgoing.link, self.connection
        number = connection.network.next_message_number()
        if self.outgoing.carries_requests:
            start = request_start(frame)
            if start is None:
                return None
            message = Message(number, now, link.source, link.target, connection.number, True, *start, frame)
            connection.unanswered[message.correlation_id] = message
            return message
        correlation_id = response_start(frame)
        if correlation_id is None:
            return None
        request = connection.answered_by(correlation_id)
        key, version = (-1, -1) if request is None else (request.api_key, request.version)
        return Message(
            number,
            now,
            link.source,
            link.target,
            connection.number,
            False,
            key,
            version,
            correlation_id,
            frame,
            request,
        )

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        sent = 0
        if isinstance(data, bytes):
            sent = self.send_now(data)
            if sent == len(data):
                return
        with memoryview(data) as view:
            sent += self.send_now(view[sent:])
            while sent < len(view):
                await self.wait_send_all_might_not_block()
                sent += self.send_now(view[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        if self.is_closed:
            raise self._why_closed()
        await self._writable.wait_until(self._room_or_end_at())

    def _room_or_end_at(self) -> float:
        return -inf if self.is_closed or self.outgoing.room > 0 else min(self.incoming.reset_at, self._given_up_at)

    # Receiving

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self.is_closed:
            raise self._why_closed()
        if self._readable.waiter is not None:
            raise trio.BusyResourceError("another task is receiving")
        incoming = self.incoming
        next_event_at = incoming.next_event_at()
        if next_event_at <= current_time():
            await trio.lowlevel.checkpoint()
        else:
            await self._readable.wait_until(min(next_event_at, self._given_up_at))
        while True:
            if self.is_closed:
                raise self._why_closed()
            now = current_time()
            taken = incoming.take(now, max_bytes or RECEIVE_BYTES)
            if taken is not None:
                return self._received(*taken)
            if incoming.reset_at <= now:
                raise trio.BrokenResourceError("connection reset by peer")
            if self._given_up_at <= now:
                raise trio.BrokenResourceError("connection timed out")
            await self._readable.wait_until(self._event_at())

    def _received(self, data: bytes, message: Message | None) -> bytes:
        if message is not None:
            message.delivered = True
            self.connection.network.report(message)
        self.outgoing.target.window_opened()
        return data

    def _event_at(self) -> float:
        return -inf if self.is_closed else min(self.incoming.next_event_at(), self._given_up_at)

    # Ending

    async def aclose(self) -> None:
        if not self.is_closed:
            now = current_time()
            self.is_closed = True
            is_over = self.incoming.reset_at <= now or self._given_up_at <= now
            if not is_over and not self.incoming.has_unread(now):
                self.outgoing.put(b"", None)
                if self.outgoing.is_stopped:
                    self.outgoing.target.give_up_later()
            self.incoming.close_target(answers=not is_over)
            self._end()
        await trio.lowlevel.checkpoint()

    def die(self, *, silent: bool) -> None:
        """The owning process has died.

        Its kernel resets the connection for the peer, unless the machine is off, which is the `silent` end.
        """
        if self.is_closed:
            return
        self.is_closed = self._is_dead = True
        self.incoming.close_target(answers=False)
        if silent:
            self.outgoing.source_vanishes()
        else:
            self.outgoing.reset()
        self._end()

    def leave(self) -> None:
        """Close a ghost without waiting."""
        if not self.is_closed:
            self.is_closed = True
            self.outgoing.put(b"", None)
            self.incoming.close_target()
            self._end()

    def _end(self) -> None:
        peer = self.outgoing.target
        self.rearm()
        peer.rearm()
        if peer.is_ghost:
            peer.leave()
        self.connection.forget_if_closed()

    def give_up_later(self) -> None:
        """The peer is silent from now on, which keep-alive will notice."""
        self._given_up_at = min(self._given_up_at, current_time() + GIVE_UP_S)
        self.rearm()

    def watch_links(self) -> None:
        """Start or stop the keep-alive timeout, according to the links as they are now."""
        if not (self.outgoing.target.is_ghost or self._given_up_at <= current_time()):
            if self._hears_of_peer():
                self._given_up_at = inf
            else:
                self.give_up_later()
        self.rearm()

    def _hears_of_peer(self) -> bool:
        """Whether the peer answers keep-alive, or its end of the stream is on the way."""
        incoming, peer = self.incoming, self.outgoing.target
        is_orphan = incoming.source_is_gone or (peer.is_closed and incoming.is_stopped)
        return not is_orphan and incoming.link.passes_handshakes() and self.outgoing.link.passes_handshakes()

    def host_is_up(self) -> bool:
        return self.connection.network.is_up(self.host)

    def window_opened(self) -> None:
        """The peer has read something, so that more can be sent."""
        if self._writable.waiter is not None:
            self.rearm()

    def rearm(self) -> None:
        """Move the end of the present waits to the right time."""
        readable = self._readable
        if readable.waiter is not None:
            readable.move_to(self._event_at())
        if self._writable.waiter is not None:
            self._writable.move_to(self._room_or_end_at())

    def _why_closed(self) -> trio.BrokenResourceError | trio.ClosedResourceError:
        if self._is_dead:
            return trio.BrokenResourceError("the process that owned the stream is no more")
        return trio.ClosedResourceError("the stream was closed")
