"""The scan of a segment's batch headers at open: what they say, and where the first damage is.

This loop decides how long opening takes.  It reads 61 bytes a batch and creates no objects.  From the last known good
point on it also checks each CRC.
"""

from __future__ import annotations

import attrs
from crc32c import crc32c

from kraft_trio.protocol.producer_history import SPACING_BYTES, ProducerHistory
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.storage.batches.batch_header import (
    CONTROL_ATTRIBUTE,
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
)
from kraft_trio.storage.segments.segment import Segment


@attrs.define
class LogScan:
    """What the batches scanned so far say."""

    next_offset: int
    """The base offset that the next batch must have."""
    producers: ProducerStates
    producers_from: int = 0
    """Batches before this offset are in `producers` already: a snapshot ends there."""
    epochs: list[tuple[int, int]] = attrs.field(factory=list)
    """(epoch, offset of its first batch), oldest first."""
    control_batches: list[tuple[Segment, int, int]] = attrs.field(factory=list)
    """Segment, position and base offset of each control batch."""
    last_batch: tuple[Segment, int] | None = None
    """Segment and position of the batch before `next_offset`, once one was scanned."""
    producer_history: ProducerHistory = attrs.field(init=False)
    """Copies of `producers` at a few offsets on the way."""

    def __attrs_post_init__(self) -> None:
        self.producer_history = ProducerHistory(max(self.next_offset, self.producers_from), self.producers)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1


@attrs.frozen
class ScanEnd:
    """Where a scan ended: the position after the last whole batch, and what is wrong there, if anything."""

    position: int
    damage: str | None


def scan_segment(
    segment: Segment, view: memoryview, scan: LogScan, position: int, known_good_offset: int | None
) -> ScanEnd:
    """Read batch headers from `position` on into `scan`, up to `known_good_offset` (exclusive).

    With None, reads to the segment's end and checks CRCs.  Raises OSError.
    """
    check_crcs = known_good_offset is None
    stop_offset = known_good_offset if known_good_offset is not None else 1 << 63
    unpack = HEADER.unpack_from
    record_producer = scan.producers.record
    note_batch = segment.note_batch
    producers_from = scan.producers_from
    history = scan.producer_history
    history_position, next_point = position, position + SPACING_BYTES
    latest_epoch = scan.latest_epoch
    next_offset = scan.next_offset
    end = len(view)
    ensure_readable = segment.file.ensure_readable
    readable_end = position
    last_position = -1
    damage = None
    while position < end and next_offset < stop_offset:
        if end - position < HEADER_BYTES:
            damage = f"{end - position} bytes are left, a batch header has {HEADER_BYTES}"
            break
        if position + HEADER_BYTES > readable_end:
            readable_end = ensure_readable(position, HEADER_BYTES)
        (
            base_offset,
            length,
            epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            _,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            _,
        ) = unpack(view, position)
        size = length + FRAME_BYTES
        if magic != MAGIC:
            damage = f"magic {magic}, expected {MAGIC}"
            break
        if base_offset != next_offset or last_offset_delta < 0 or size < HEADER_BYTES:
            damage = (
                f"base offset {base_offset}, last offset delta {last_offset_delta}, length {length}; "
                f"expected base offset {next_offset}, 0 or more, {HEADER_BYTES - FRAME_BYTES} or more"
            )
            break
        if size > end - position:
            damage = f"a batch of {size} bytes, {end - position} are left"
            break
        if check_crcs:
            if position + size > readable_end:
                readable_end = ensure_readable(position, size)
            if crc32c(view[position + CRC_START : position + size]) != crc:
                damage = f"the batch at offset {base_offset} has a wrong CRC"
                break
        if epoch != latest_epoch:
            if epoch < latest_epoch or epoch < 0:
                damage = (
                    f"leader epoch {epoch} at offset {base_offset} after epoch {latest_epoch}: this batch or the one "
                    "before it is damaged"
                )
                break
            scan.epochs.append((epoch, base_offset))
            latest_epoch = epoch
        last_offset = base_offset + last_offset_delta
        if attributes & CONTROL_ATTRIBUTE:
            scan.control_batches.append((segment, position, base_offset))
        if producer_id >= 0 and base_offset >= producers_from:
            if position >= next_point:
                history.grow(position - history_position, base_offset, scan.producers)
                history_position, next_point = position, position + SPACING_BYTES
            record_producer(producer_id, producer_epoch, base_sequence, base_offset, last_offset, max_timestamp_ms)
        note_batch(position, size, last_offset, max_timestamp_ms)
        next_offset = last_offset + 1
        last_position = position
        position += size
    if last_position >= 0:
        scan.last_batch = segment, last_position
    scan.next_offset = next_offset
    history.grow(position - history_position, next_offset, scan.producers)
    return ScanEnd(position, damage)
