"""Frames on a byte stream: a big-endian length of four bytes, then as many bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Final, TypeAlias

import trio

from kraft_trio.errors import NetworkError, ProtocolError

_LENGTH: Final = Struct(">i")
_RECEIVE_BYTES: Final = 64 * 1024
_RECEIVE_BYTES_MAX: Final = 1024 * 1024
UNADMITTED_BYTES: Final = _RECEIVE_BYTES
"""A frame up to this size is received without asking for memory first."""
_IN_PLACE_BYTES: Final = 128 * 1024
_IN_PLACE_BYTES_MAX: Final = 4 * 1024 * 1024
"""If the missing part of a frame has a size between these two, it is received in place.  A megabyte is then copied once
instead of three times.  For a larger frame, memory grows with the received bytes: a peer's word is not worth more."""

Frame: TypeAlias = bytes | bytearray
"""A frame without its length.  The next frame overwrites a bytearray."""


class FrameTooLargeError(ProtocolError):
    """A frame declares more bytes than the limit allows.  Its body was not read."""


class FrameReader:
    """Reads frames from a stream that it does not own.

    `limit` is the largest accepted frame in bytes, without the length; it may be changed between reads.  One task may
    read at a time.  A cancelled read loses nothing; the next read continues it.
    """

    def __init__(
        self,
        stream: trio.abc.ReceiveStream,
        limit: int,
        admit: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """`admit` is awaited before the body of a frame above UNADMITTED_BYTES is received.

        It returns once there is memory for a frame of that many bytes.
        """
        self.limit = limit
        self.bytes_received = 0
        self._admit = admit
        self._stream = stream
        self._receive_into: Callable[[memoryview], Awaitable[int]] | None = getattr(stream, "receive_into", None)
        self._buffer = bytearray()
        self._in_place: bytearray | None = None
        """The frame that is being received in place.  Its first `_received` bytes are here."""
        self._received = 0
        self._memory = bytearray()
        """The memory of the last lent frame."""

    @property
    def is_within_frame(self) -> bool:
        """Whether a part of a frame has been received."""
        return bool(self._buffer) or self._in_place is not None

    async def read(self) -> bytes | None:
        """Like `read_lent`, but the caller may keep the frame."""
        frame = await self.read_lent()
        if self._memory:
            self._memory = bytearray()
        return bytes(frame) if isinstance(frame, bytearray) else frame

    async def read_lent(self) -> Frame | None:
        """The next frame without its length, or None if the peer has closed the stream between frames.

        The frame is valid until the next read, because large frames of the same size share memory.

        Raises FrameTooLargeError for a length above the limit, ProtocolError for a negative length or a stream that
        ends within a frame, and NetworkError if the connection breaks.  After an error the reader must not be used.
        """
        if self._in_place is not None:
            return await self._rest_of(self._in_place)
        buffer = self._buffer
        if not buffer:
            received = await self._receive(_RECEIVE_BYTES)
            if not received:
                return None
            # Usually a whole frame arrives in one piece.  It is not copied through the buffer.
            if len(received) >= _LENGTH.size and self._declared_length(received) + _LENGTH.size == len(received):
                return received[_LENGTH.size :]
            buffer += received
        while len(buffer) < _LENGTH.size:
            await self._receive_more(_LENGTH.size)
        end = _LENGTH.size + self._declared_length(buffer)
        if self._admit is not None and end - _LENGTH.size > UNADMITTED_BYTES:
            await self._admit(end - _LENGTH.size)
        if self._receive_into and _IN_PLACE_BYTES <= end - len(buffer) <= _IN_PLACE_BYTES_MAX:
            if len(self._memory) != end - _LENGTH.size:
                self._memory = bytearray(end - _LENGTH.size)
            self._in_place, self._received = self._memory, len(buffer) - _LENGTH.size
            with memoryview(buffer) as start, memoryview(self._memory) as view:
                view[: self._received] = start[_LENGTH.size :]
            buffer.clear()
            return await self._rest_of(self._in_place)
        while len(buffer) < end:
            await self._receive_more(end)
        with memoryview(buffer) as view:
            frame = bytes(view[_LENGTH.size : end])
        del buffer[:end]
        return frame

    async def _rest_of(self, frame: bytearray) -> bytearray:
        """Receive the rest of the frame, and nothing after it."""
        assert self._receive_into is not None, "a frame in place of a stream that has no such call"
        with memoryview(frame) as view:
            while self._received < len(frame):
                try:
                    size = await self._receive_into(view[self._received :])
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    raise NetworkError(f"connection broken: {error}") from error
                if not size:
                    raise self._cut(self._received + _LENGTH.size, len(frame) + _LENGTH.size)
                self._received += size
                self.bytes_received += size
        self._in_place = None
        return frame

    def _declared_length(self, start: bytes | bytearray) -> int:
        (length,) = _LENGTH.unpack_from(start)
        if length < 0:
            raise ProtocolError(f"frame length {length}: 0 to {self.limit} was expected")
        if length > self.limit:
            raise FrameTooLargeError(f"frame length {length}: at most {self.limit} is allowed")
        return int(length)

    async def _receive_more(self, wanted: int) -> None:
        """Receive at least one byte; `wanted` is the size that the buffer needs."""
        missing = wanted - len(self._buffer)
        received = await self._receive(min(max(missing, _RECEIVE_BYTES), _RECEIVE_BYTES_MAX))
        if not received:
            raise self._cut(len(self._buffer), wanted)
        self._buffer += received

    def _cut(self, came: int, wanted: int) -> ProtocolError:
        return ProtocolError(f"the stream ended within a frame: {came} of {wanted} bytes came")

    async def _receive(self, max_bytes: int) -> bytes:
        try:
            received = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise NetworkError(f"connection broken: {error}") from error
        self.bytes_received += len(received)
        return received
