"""Requests and responses on the simulated network, and how they are found in a stream of bytes."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Any, Final

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.api import API_VERSIONS, APIS
from kraft_trio.wire.codec import decode_request, decode_response
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode

_REQUEST_START: Final = Struct(">4xhhi")
"""The beginning of every request: frame length, API key, version, correlation id."""
_RESPONSE_START: Final = Struct(">4xi")
_LENGTH_BYTES: Final = 4
_CORRELATION_ID: Final = slice(8, 12)
"""Where a request's frame has it."""
_MAX_FRAME_BYTES: Final = 2**30
"""A longer frame is not the protocol: no node and no client sends one."""
_TOO_NEW: Final = int(ErrorCode.unsupported_version).to_bytes(2, "big")
_UNREAD: Final = object()


@attrs.define(eq=False, repr=False)
class Message:
    """One whole frame that a host has sent.

    The same object is reported when it is sent, and again, with `delivered` set, when the receiving process has read
    its last byte.  A lost frame is not reported again.
    """

    number: int
    """From 0, in the order in which frames are sent on this network."""
    sent_at_s: float
    """Trio's time."""
    source: str
    """The host that sent it."""
    target: str
    """The host that is to receive it."""
    connection: int
    """The number of its connection, unique in the network."""
    is_request: bool
    api_key: int
    """For a response, the key of its request; -1 if there was no such request."""
    version: int
    correlation_id: int
    raw: bytes
    """The frame, including its length field of four bytes."""
    request: Message | None = None
    """The request that a response answers; None if there was no such request."""
    is_duplicate: bool = False
    """Whether the network, and not its sender, sends the request a second time."""
    delivered: bool = False
    _value: Any = attrs.field(default=_UNREAD, init=False)

    @property
    def api(self) -> Api[Any, Any] | None:
        """The API; None for an unknown key."""
        return APIS.get(self.api_key)

    @property
    def frame(self) -> bytes:
        """The frame without its length field, as `wire.codec` takes it."""
        return self.raw[_LENGTH_BYTES:]

    @property
    def value(self) -> Any:
        """The decoded request or response; None if the bytes are not valid for that API and version."""
        if self._value is _UNREAD:
            self._value = self._decoded()
        return self._value

    def _decoded(self) -> Any:
        try:
            if self.is_request:
                return _request_in(self.raw[_LENGTH_BYTES : _CORRELATION_ID.start], self.raw[_CORRELATION_ID.stop :])
            api = self.api
            if api is None:
                return None
            # A peer that does not know the version of an ApiVersions request answers with version 0 (KIP-511).
            is_too_new = api is API_VERSIONS and self.raw[8:10] == _TOO_NEW
            return decode_response(api, 0 if is_too_new else self.version, self.frame)[1]
        except (ProtocolError, UnsupportedVersionError):
            return None

    def __repr__(self) -> str:
        api = self.api
        name = f"API key {self.api_key}" if api is None else api.name
        what = f"{name} v{self.version} {'request' if self.is_request else 'response'} {self.correlation_id}"
        state = "delivered" if self.delivered else "sent"
        return f"<Message {self.number}: {what} {self.source} -> {self.target}, connection {self.connection}, {state}>"


@lru_cache(maxsize=64)
def _request_in(before: bytes, after: bytes) -> Any:
    """The request in a frame, given what is before and after its correlation id.

    A replica without news sends the same Fetch again and again, so most are decoded once.  Requests are immutable.
    """
    return decode_request(before + bytes(_CORRELATION_ID.stop - _CORRELATION_ID.start) + after)[1]


def request_start(raw: bytes) -> tuple[int, int, int] | None:
    """API key, version and correlation id of a request's frame, including its length field; None if it is too short."""
    if len(raw) < _REQUEST_START.size:
        return None
    key, version, correlation_id = _REQUEST_START.unpack_from(raw)
    return key, version, correlation_id


def response_start(raw: bytes) -> int | None:
    """The correlation id of a response's frame, including its length field; None if it is too short."""
    return int(_RESPONSE_START.unpack_from(raw)[0]) if len(raw) >= _RESPONSE_START.size else None


class FrameSplitter:
    """Cuts a stream of bytes into pieces that end with a frame or within a frame.

    A negative or absurd length means that the bytes are not frames.  They and everything after them then count as the
    beginning of one endless frame.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._is_foreign = False

    def split(self, data: bytes) -> list[tuple[bytes, bytes | None]]:
        """The pieces of `data`.  Each comes with the whole frame that it completes, including the length field, or
        None."""
        size = len(data)
        if not self._begun and not self._is_foreign and size >= _LENGTH_BYTES:
            length = int.from_bytes(data[:_LENGTH_BYTES], "big")
            if length + _LENGTH_BYTES == size:
                return [(data, data)]
        return self._split_slowly(data)

    def _split_slowly(self, data: bytes) -> list[tuple[bytes, bytes | None]]:
        pieces: list[tuple[bytes, bytes | None]] = []
        position = 0
        while position < len(data):
            if self._is_foreign:
                pieces.append((data[position:], None))
                break
            taken = data[position : position + self._missing()]
            position += len(taken)
            self._begun += taken
            if not self._is_foreign and len(self._begun) >= _LENGTH_BYTES and not self._missing():
                pieces.append((taken, bytes(self._begun)))
                self._begun.clear()
            else:
                pieces.append((taken, None))
        return _joined(pieces)

    def _missing(self) -> int:
        """How many bytes are missing from the length field or, once that is known, from the frame."""
        begun = self._begun
        if len(begun) < _LENGTH_BYTES:
            return _LENGTH_BYTES - len(begun)
        length = int.from_bytes(begun[:_LENGTH_BYTES], "big")
        if length > _MAX_FRAME_BYTES:
            self._is_foreign = True
            begun.clear()
            return _MAX_FRAME_BYTES
        return length + _LENGTH_BYTES - len(begun)


def _joined(pieces: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """The same pieces, with each length field joined to the bytes after it."""
    joined: list[tuple[bytes, bytes | None]] = []
    for data, frame in pieces:
        if joined and joined[-1][1] is None:
            joined[-1] = (joined[-1][0] + data, frame)
        else:
            joined.append((data, frame))
    return joined
