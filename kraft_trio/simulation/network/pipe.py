"""`Pipe`: one direction of a simulated TCP connection, with the times at which its bytes arrive."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final, Protocol

import attrs

from kraft_trio.simulation.deterministic import current_time
from kraft_trio.simulation.network.link import Link, retransmitted_at
from kraft_trio.simulation.network.link_faults import Blocked
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import API_VERSIONS

WINDOW_BYTES: Final = 1024 * 1024
"""How many bytes may be in flight or unread in one direction; a sender of more waits."""

_API_VERSIONS_KEY: Final = API_VERSIONS.key
_REQUESTS: Final = int(Blocked.REQUESTS)
_ANSWERS: Final = int(Blocked.ANSWERS)
_HANDSHAKES: Final = int(Blocked.HANDSHAKES)


@attrs.define(eq=False)
class Piece:
    """Bytes in flight; without bytes it is the end of the stream (FIN)."""

    data: bytes
    message: Message | None
    """The frame that ends with this piece."""
    sent_at: float
    arrives_at: float
    """Infinite while it is stopped."""
    category: int
    """The Blocked flag that stops it."""
    is_lost: bool = False
    """Whether it was lost and must be sent again."""
    read: int = 0
    """How many of its bytes have been read."""


class Receiver(Protocol):
    """The end of a connection that reads from a pipe."""

    @property
    def is_ghost(self) -> bool:
        """Whether the network holds this end, and nobody reads from it."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether its owner has closed it, or has died."""
        ...

    def leave(self) -> None:
        """Close a ghost without waiting."""
        ...

    def window_opened(self) -> None:
        """Its peer has read something, so that it can send more."""
        ...

    def rearm(self) -> None:
        """Wake the waiting task at the right time."""
        ...

    def give_up_later(self) -> None:
        """Give up later: nothing is heard of the peer from now on."""
        ...

    def watch_links(self) -> None:
        """The links have changed."""
        ...

    def host_is_up(self) -> bool:
        """Whether the machine is on."""
        ...


class Pipe:
    """One direction of a connection.  Bytes arrive in order or not at all.

    The source puts pieces in, and the target takes them out when they have arrived.  A stopped piece stops all pieces
    behind it.
    """

    def __init__(self, link: Link, number: int, *, carries_requests: bool) -> None:
        self.link = link
        self.number = number
        self.carries_requests = carries_requests
        self.reverse: Pipe
        self.target: Receiver
        """The end that reads from it."""
        self.reset_at = inf
        """When a reset arrives at the target; what arrives before it can still be read."""
        self.target_is_gone = False
        """Whether nobody reads any more, because the target is closed or its process is dead."""
        self.source_is_gone = False
        """Whether nothing will be sent any more, not even again, because the source's process is dead."""
        self.room = WINDOW_BYTES
        self._pieces: deque[Piece] = deque()
        self._last_arrival = -inf
        self._reset_is_held = False
        """Whether a reset waits for the end of a clog."""
        self._unheard_since = inf
        """Since when the source has sent data to a machine that is off."""
        self._category = _REQUESTS if carries_requests else _ANSWERS
        link.pipes[number] = self

    # The source's side

    def put(self, data: bytes, message: Message | None, *, delay_s: float = 0.0) -> float:
        """Send some bytes, or end the stream with no bytes.  Returns when they arrive; infinity if they are stopped."""
        if self.source_is_gone:
            return inf
        target = self.target
        if target.is_ghost:
            target.leave()
            return inf
        link = self.link
        now = current_time()
        category = self._category
        if not data or (message is not None and message.api_key == _API_VERSIONS_KEY):
            category = _HANDSHAKES
        arrives_at = inf
        if not (self._last_arrival == inf or link.blocked & category):
            arrives_at = max(now + link.latency_s() + delay_s, self._last_arrival)
            if self.target_is_gone:
                self._bounce(arrives_at)
                return arrives_at
        pieces = self._pieces
        pieces.append(Piece(data, message, now, arrives_at, category, link.lost & category != 0))
        self._last_arrival = arrives_at
        self.room -= len(data)
        if len(pieces) == 1:
            target.rearm()
        return arrives_at

    def reset(self, not_before: float | None = None) -> None:
        """Answer the peer with a reset and forget the connection on the source's side (RFC 9293, 3.5.2)."""
        if self.reset_at < inf:
            return
        self._forget_source()
        self._end_with_reset(current_time() if not_before is None else not_before)

    def _end_with_reset(self, not_before: float) -> None:
        link = self.link
        self._reset_is_held = False
        if self.target_is_gone:
            return
        if link.passes_handshakes():
            self.reset_at = max(not_before + link.latency_s(), self._last_arrival)
            self.target.rearm()
        else:
            self._stop_reset()

    def _stop_reset(self) -> None:
        """A lost reset is not sent again, so the connection is half open.  A clog only delays it."""
        self.reset_at = inf
        self._reset_is_held = not self.link.lost & _HANDSHAKES
        self.target.give_up_later()

    def break_now(self) -> None:
        """End the connection for the target at once, and lose what has not arrived."""
        now = current_time()
        self._forget_source()
        self._pieces = deque(piece for piece in self._pieces if piece.arrives_at <= now)
        self.reset_at = min(self.reset_at, now)
        self.target.rearm()

    def source_vanishes(self) -> None:
        """The source's machine is off: data in flight arrives, then nothing more, not even a reset."""
        if self.reset_at == inf:
            self._forget_source()
            if not self.target_is_gone:
                self.target.give_up_later()

    def _forget_source(self) -> None:
        self.source_is_gone = True
        self._pieces = deque(piece for piece in self._pieces if piece.arrives_at < inf)
        self._last_arrival = max((piece.arrives_at for piece in self._pieces), default=-inf)
        if self.target.is_ghost:
            self.target.leave()

    def fail_for_target(self, at: float) -> None:
        """Let the target see a reset at that time.  The source notices when it sends something."""
        self._pieces = deque(piece for piece in self._pieces if piece.arrives_at < at)
        self.target_is_gone = True
        self.reset_at = min(self.reset_at, at)
        self.target.rearm()
        self.reverse.source_is_gone = True
        self.reverse.target.give_up_later()

    # The target's side

    def next_event_at(self) -> float:
        """When the target can read something or learns that the connection is broken."""
        return min(self._pieces[0].arrives_at, self.reset_at) if self._pieces else self.reset_at

    def take(self, now: float, max_bytes: int) -> tuple[bytes, Message | None] | None:
        """The bytes that have arrived, with the frame that ends there. b"" is the end of the stream, None means nothing
        yet."""
        pieces = self._pieces
        if not pieces or pieces[0].arrives_at > now:
            return None
        piece = pieces[0]
        data = piece.data
        if not data:
            return data, None
        if piece.read or len(data) > max_bytes:
            data = data[piece.read : piece.read + max_bytes]
            piece.read += len(data)
        self.room += len(data)
        if piece.read and piece.read < len(piece.data):
            return data, None
        pieces.popleft()
        return data, piece.message

    def close_target(self, *, answers: bool = True) -> None:
        """Stop reading.  The host answers data in flight with a reset if `answers` is set."""
        self.target_is_gone = True
        pieces, self._pieces = self._pieces, deque()
        now = current_time()
        stopped = [piece for piece in pieces if piece.arrives_at == inf]
        flying = [piece.arrives_at for piece in pieces if piece.data and now < piece.arrives_at < inf]
        unread = [piece for piece in pieces if piece.data and piece.arrives_at <= now]
        self.room = WINDOW_BYTES
        self._pieces.extend(stopped)
        if answers and unread:
            self.reverse.reset()
        elif answers and flying:
            self._bounce(flying[0])

    @property
    def is_stopped(self) -> bool:
        """Whether something in it is stopped."""
        return self._last_arrival == inf

    def has_unread(self, now: float) -> bool:
        return bool(self._pieces and self._pieces[0].data and self._pieces[0].arrives_at <= now)

    def has_ended(self, now: float) -> bool:
        """Whether the target's kernel knows that nothing more will come, even if not all has been read."""
        last = self._pieces[-1] if self._pieces else None
        return self.reset_at <= now or (last is not None and not last.data and last.arrives_at <= now)

    def _bounce(self, arrives_at: float) -> None:
        """Data arrives that nobody reads: the host answers with a reset, if it is up."""
        if self.target.host_is_up():
            self.reverse.reset(arrives_at)
        elif self.reverse.reset_at == inf:
            self._unheard_since = min(self._unheard_since, arrives_at)

    # The network's side

    def link_changed(self) -> None:
        """Stop what is blocked now, and release what no longer is."""
        now = current_time()
        link = self.link
        if link.resets:
            self.break_now()
            self.reverse.break_now()
            return
        if now < self.reset_at < inf and link.blocked & _HANDSHAKES:
            self._stop_reset()
        last = -inf
        for piece in self._pieces:
            if piece.arrives_at <= now:
                continue
            if last == inf or link.blocked & piece.category:
                piece.arrives_at = inf
                piece.is_lost = piece.is_lost or bool(link.lost & piece.category)
            elif piece.arrives_at == inf:
                again = retransmitted_at(piece.sent_at, now) if piece.is_lost else now
                piece.arrives_at = max(again + link.latency_s(), last)
                piece.is_lost = False
            last = max(last, piece.arrives_at)
        self._last_arrival = last
        if self._reset_is_held:
            self._end_with_reset(now)
        if self.target_is_gone:
            self._bounce_released()
        self.target.watch_links()
        self.reverse.target.watch_links()

    def target_host_is_up(self) -> None:
        """The target's machine is on again, does not know the connection, and answers data with a reset."""
        if self._unheard_since < inf:
            self.reverse.reset(retransmitted_at(self._unheard_since, current_time()))

    def _bounce_released(self) -> None:
        """Data that was stopped on its way to a closed end now arrives."""
        released = [piece.arrives_at for piece in self._pieces if piece.arrives_at < inf]
        if released:
            self._pieces = deque(piece for piece in self._pieces if piece.arrives_at == inf)
            self._bounce(released[0])
