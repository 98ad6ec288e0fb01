"""Finds and decodes the headers of many batches at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from kraft_trio.storage.batches.batch_header import CRC_START, FRAME_BYTES, HEADER_BYTES, MAGIC, MAGIC_POSITION

Ints = npt.NDArray[np.int64]
Headers = npt.NDArray[np.void]
"""Elements have the type HEADER."""

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
"""The fields of a header, at the positions of `storage.batches.batch_header.HEADER`."""

_RAW = np.dtype((np.void, HEADER_BYTES))
_LENGTH_POSITION = 8
_LEAST_LENGTH = HEADER_BYTES - FRAME_BYTES
_COPY_BELOW_BYTES = 4096
"""Below this size, slicing bytes is cheaper than slicing a memoryview."""
_GUESS_BELOW_BYTES = 1024
"""Below this batch size, scanning every byte is cheaper than stepping from batch to batch."""
_BATCHES_A_GUESS = 32
"""A guess must find at least this many batches to pay off."""


def walk(buffer: bytes, start: int, end: int) -> Ints:
    """The positions of the complete batches in `buffer` from `start` to `end`, each beginning where the last one ends.

    Only the lengths are examined; the scan stops at the first impossible one.
    """
    last = end - HEADER_BYTES
    if start > last:
        return np.empty(0, np.int64)
    # Reads a number at any position without creating a slice.
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
    """Find batches from `start` while guessing is cheap; returns them and where the next one begins.

    Every possible magic byte is a candidate for a batch.  Candidates form a chain if each one ends where the next
    begins; the chain from the first batch is the result.
    """
    magic = np.frombuffer(buffer, np.int8)[start + MAGIC_POSITION : last + MAGIC_POSITION + 1] == MAGIC
    likely = np.flatnonzero(magic) + start
    following = likely + lengths[likely].astype(np.int64) + FRAME_BYTES
    is_likely = following - likely >= HEADER_BYTES
    # Anything between a batch and its successor is not a batch.
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
    """The headers at these positions.  Each must be followed by at least 61 bytes."""
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
    """Size of the complete batches in bytes."""
    return field(headers, "length") + FRAME_BYTES


def content_crcs(buffer: bytes, positions: Ints, sizes: Ints) -> Ints:
    """The CRC-32C of each batch, over the bytes from the attributes on.  The batches must be adjacent."""
    starts, ends = positions + CRC_START, positions + sizes
    count = len(positions)
    if len(buffer) < count * _COPY_BELOW_BYTES:
        # An Arrow array alternates these bytes with the bytes between them, which creates all objects at once.
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2], bounds[1::2] = starts, ends
        pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
        return np.fromiter(map(crc32c, pieces.to_numpy(zero_copy_only=False)[0::2].tolist()), np.int64, count)
    covered = map(slice, starts.tolist(), ends.tolist())
    with memoryview(buffer) as view:
        return np.fromiter(map(crc32c, map(view.__getitem__, covered)), np.int64, count)
