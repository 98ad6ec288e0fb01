"""Restores the producers' states from the batch headers of a part of the log, in short steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from kraft_trio.errors import CorruptLogError
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER, HEADER_BYTES, MAGIC
from kraft_trio.storage.segments.segment import Segment
from kraft_trio.storage.segments.segments import Segments

CHUNK_BYTES: Final = 64 * 1024
"""One step: up to a thousand batches, or a few milliseconds."""


def replay_producers(
    segments: Segments, producers: ProducerStates, from_offset: int, to_offset: int
) -> Generator[None, None, int]:
    """Record the batches from `from_offset` to `to_offset` (exclusive) in `producers`.  Both are base offsets.

    Returns the number of bytes between the two.  Yields after each step.  Until the end, the log must keep these
    batches, and nothing else may record in `producers`.  Reads only the headers of large batches.  Raises OSError,
    CorruptLogError.
    """
    if from_offset == to_offset:
        return 0
    segment, position, base_offset = segments.batch_of(from_offset)
    passed = 0
    for current in segments:
        if current.base_offset < segment.base_offset:
            continue
        passed -= position
        position, base_offset = yield from _replay_segment(current, producers, position, base_offset, to_offset)
        passed += position
        if base_offset == to_offset:
            break
        position = 0
    return passed


def _replay_segment(
    segment: Segment, producers: ProducerStates, position: int, next_offset: int, to_offset: int
) -> Generator[None, None, tuple[int, int]]:
    """Replay up to the segment's end or `to_offset`; return the position and offset reached."""
    size = segment.size
    while position < size and next_offset < to_offset:
        chunk = segment.file.read_at(position, CHUNK_BYTES)
        at = 0
        while len(chunk) - at >= HEADER_BYTES and next_offset < to_offset:
            base_offset, length, _, magic, _, _, delta, _, timestamp_ms, producer_id, epoch, sequence, _ = (
                HEADER.unpack_from(chunk, at)
            )
            if base_offset != next_offset or magic != MAGIC or delta < 0 or length < HEADER_BYTES - FRAME_BYTES:
                raise _not_found(segment, position + at, next_offset)
            next_offset = base_offset + delta + 1
            if producer_id >= 0:
                producers.record(producer_id, epoch, sequence, base_offset, next_offset - 1, timestamp_ms)
            at += length + FRAME_BYTES
        if at == 0:
            raise _not_found(segment, position, next_offset)
        position += at
        yield
    return position, next_offset


def _not_found(segment: Segment, position: int, offset: int) -> CorruptLogError:
    return CorruptLogError(
        f"{segment.file.path}: position {position}: found no batch that begins with offset {offset}, which was there"
    )
