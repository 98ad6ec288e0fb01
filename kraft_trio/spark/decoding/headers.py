"""The headers of many batches at once: where they begin, and their fields as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from kraft_trio.storage.batch_header import CRC_START, FRAME_BYTES, HEADER_BYTES, MAGIC, MAGIC_POSITION

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
_LEAST_LENGTH = HEADER_BYTES - FRAME_BYTES
_COPY_BELOW_BYTES = 4096
"""A slice of bytes is cheaper than one of a memoryview as long as it is small."""
_GUESS_BELOW_BYTES = 1024
"""Looking at every byte is cheaper than at one batch after the other as long as those are small."""
_BATCHES_A_GUESS = 32
"""As many must a guess be right about to be cheaper."""


def walk(buffer: bytes, start: int, end: int) -> Ints:
    """The positions of the batches in `buffer` from `start` on that are whole before `end`: each where the last ends.

    Nothing but the lengths is looked at; it stops before the first that no batch can have.
    """
    last = end - HEADER_BYTES
    if start > last:
        return np.empty(0, np.int64)
    # One read of a number at any position, without an object for the slice.
    lengths = np.ndarray((len(buffer) - FRAME_BYTES + 1,), ">i4", buffer, _LENGTH_POSITION, (1,))
    found, position = np.empty(0, np.int64), start
    if int(lengths[start]) + FRAME_BYTES < _GUESS_BELOW_BYTES:
        found, position = _guess(buffer, lengths, start, last)
    length_at = lengths.item
    positions: list[int] = []
    append = positions.append
    while position <= last:
        length = length_at(position)
        if length < _LEAST_LENGTH:
            break
        append(position)
        position += length + FRAME_BYTES
    walked = np.concatenate((found, np.array(positions, np.int64)))
    return walked[:-1] if position > end else walked


def _guess(buffer: bytes, lengths: npt.NDArray[Any], start: int, last: int) -> tuple[Ints, int]:
    """Batches from `start` on as long as it is cheap, and where the next one begins.

    Wherever the byte of a batch's magic might be a batch might begin; those each of which ends where the next one
    begins are the batches, as the first one is.
    """
    magic = np.frombuffer(buffer, np.int8)[start + MAGIC_POSITION : last + MAGIC_POSITION + 1] == MAGIC
    likely = np.flatnonzero(magic) + start
    following = likely + lengths[likely].astype(np.int64) + FRAME_BYTES
    is_likely = following - likely >= HEADER_BYTES
    # What lies between a batch and the one that follows it is none.
    is_likely[1:-1] &= following[:-2] != likely[2:]
    likely, following = likely[is_likely], following[is_likely]
    if not len(likely) or likely[0] != start:
        return np.empty(0, np.int64), start
    stops = np.flatnonzero(following[:-1] != likely[1:]) + 1
    if len(stops) * _BATCHES_A_GUESS > len(likely):
        return np.empty(0, np.int64), start
    runs = []
    at = 0
    for stop in [*stops.tolist(), len(likely)]:
        if at < stop:
            runs.append(likely[at:stop])
            position = int(following[stop - 1])
            at = int(np.searchsorted(likely, position))
            if at == len(likely) or likely[at] != position:
                break
    return np.concatenate(runs), position


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
    """The CRC-32C of each batch's bytes from the attributes on; the batches follow one another."""
    starts, ends = positions + CRC_START, positions + sizes
    count = len(positions)
    if len(buffer) < count * _COPY_BELOW_BYTES:
        # As an Arrow array of these bytes and of those between them, which makes the objects in one go.
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2], bounds[1::2] = starts, ends
        pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
        return np.fromiter(map(crc32c, pieces.to_numpy(zero_copy_only=False)[0::2].tolist()), np.int64, count)
    covered = map(slice, starts.tolist(), ends.tolist())
    with memoryview(buffer) as view:
        return np.fromiter(map(crc32c, map(view.__getitem__, covered)), np.int64, count)
