"""What the templates of frames share: how to find a field in a frame, and when to make a template.

A template is a frame that the general encoder made, cut at the fields that differ from message to message.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from kraft_trio.wire.writer_source import unsigned_varint

T = TypeVar("T")

LENGTH_BYTES: Final = 4
CORRELATION_ID: Final = 0x5AC3_96E1
EPOCH: Final = 0x3C5A_A596
OFFSETS: Final = (0x1E87_A5D2_4B96_3CF1, 0x2D69_B4E1_5AC3_87D2, 0x4BF0_96C3_1DA5_78E6)
RECORDS: Final = b"\x96\xe1\x3c\x5a\xd2\x87\xb4\x69" * 2
"""Values that mark where in a frame a field is."""
MAX_TEMPLATE_BYTES: Final = 4096
"""Limit for a frame without its records.  A connection keeps a few templates for as long as it is open."""
_ONE_BYTE_VARINT: Final = 0x80
_LARGEST_SHIFT: Final = 28
"""Of the last byte of a length."""


def gaps(frame: bytes, *marks: bytes) -> list[bytes] | None:
    """The parts between the marks, in their order.  None unless each mark is there once, and if they are too large."""
    if len(frame) > MAX_TEMPLATE_BYTES:
        return None
    found = []
    for mark in marks:
        if frame.count(mark) != 1:
            return None
        gap, _, frame = frame.partition(mark)
        found.append(gap)
    return [*found, frame]


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big")


def last_bytes(frame: bytes, position: int, end: bytes) -> bytes | None:
    """The compact byte string at `position`, which `end` follows, and nothing more.  None if the frame differs."""
    start, size, shift = position, 0, 0
    length = len(frame)
    while True:
        if start == length or shift > _LARGEST_SHIFT:
            return None
        byte = frame[start]
        start += 1
        size |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE_VARINT:
            break
        shift += 7
    # Compact lengths are one more, and 0 means null.
    stop = start + size - 1
    if not size or size > length or frame[stop:] != end or unsigned_varint(size) != frame[position:start]:
        return None
    return frame[start:stop]


class Last(Generic[T]):
    """The newest template, and when to make another: the more rarely, the more often none of them has fitted."""

    __slots__ = ("_misses", "template")

    def __init__(self) -> None:
        self.template: T | None = None
        self._misses = 0

    def fitted(self) -> None:
        self._misses = 0

    def is_due(self) -> bool:
        """Note that the template did not fit.  Returns whether to make another: after 1, 2, 4, 8 … misses in a row."""
        self._misses += 1
        return not self._misses & (self._misses - 1)
