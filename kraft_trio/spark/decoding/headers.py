"""The headers of many batches at once: where they begin, and their fields as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from kraft_trio.storage.batch_header import CRC_START, FRAME_BYTES, HEADER_BYTES

Ints = npt.NDArray[np.int64]
Headers = npt.NDArray[np.void]
"""Elements are of HEADER."""

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""A header's fields, in the order and at the places that `storage.batch_header.HEADER` has them."""

_RAW = np.dtype((np.void, HEADER_BYTES))
_LENGTH_POSITION = 8
_COPY_BELOW_BYTES = 4096
"""A slice of bytes is cheaper than one of a memoryview as long as it is small."""


def walk(buffer: bytes, start: int, end: int) -> Ints:
    """The positions of the batches in `buffer` from `start` on that are whole before `end`: each where the last ends.

    Nothing but the lengths is looked at; it stops before the first that no batch can have.
    """
    last = end - HEADER_BYTES
    if start > last:
        return np.empty(0, np.int64)
    # One read of a number at any position, without an object for the slice.
    length_at = np.ndarray((len(buffer) - FRAME_BYTES + 1,), ">i4", buffer, _LENGTH_POSITION, (1,)).item
    positions: list[int] = []
    append = positions.append
    position = start
    while position <= last:
        length = length_at(position)
        if length < HEADER_BYTES - FRAME_BYTES:
            break
        append(position)
        position += length + FRAME_BYTES
    if position > end:
        positions.pop()
    return np.array(positions, np.int64)


def gather(buffer: bytes, positions: Ints) -> Headers:
    """The headers at those positions, which must have 61 bytes each."""
    if not len(positions):
        return np.empty(0, HEADER)
    everywhere = np.ndarray((len(buffer) - HEADER_BYTES + 1,), _RAW, buffer, strides=(1,))
    headers: Headers = everywhere[positions].view(HEADER)
    return headers


def field(headers: Headers, name: str) -> Ints:
    """One field of all headers, as int64."""
    column: npt.NDArray[Any] = headers[name]
    return column.astype(np.int64)


def sizes_of(headers: Headers) -> Ints:
    """Of the whole batches, in bytes."""
    return field(headers, "length") + FRAME_BYTES


def content_crcs(buffer: bytes, positions: Ints, sizes: Ints) -> Ints:
    """The CRC-32C of each batch's bytes from the attributes on."""
    covered = map(slice, (positions + CRC_START).tolist(), (positions + sizes).tolist())
    if len(buffer) < len(positions) * _COPY_BELOW_BYTES:
        return np.fromiter(map(crc32c, map(buffer.__getitem__, covered)), np.int64, len(positions))
    with memoryview(buffer) as view:
        return np.fromiter(map(crc32c, map(view.__getitem__, covered)), np.int64, len(positions))
