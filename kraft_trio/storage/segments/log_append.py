"""Plans an append before anything is written, so that a refused batch changes nothing."""

from __future__ import annotations

import struct
from typing import NamedTuple

import attrs
from crc32c import crc32c

from kraft_trio.errors import ProtocolError, RecordTooLargeError
from kraft_trio.storage.batches.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    check_crc,
    decode_control_batch,
    peek_header,
)
from kraft_trio.storage.batches.batch_header import (
    CONTROL_ATTRIBUTE,
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    whole_batches_size,
)
from kraft_trio.storage.batches.control_records import ControlRecord
from kraft_trio.storage.batches.record_check import check_records
from kraft_trio.storage.disk.disk import Buffer

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12


class PlannedBatch(NamedTuple):
    """One batch of an append.  Offsets are inclusive."""

    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


@attrs.define
class PlannedBatches:
    """A valid append: its batches in order, and its control records with their offsets."""

    batches: list[PlannedBatch] = attrs.field(factory=list)
    control_records: list[tuple[int, ControlRecord]] = attrs.field(factory=list)
    size: int = 0
    """Bytes to write."""


def plan_leader_append(buffer: bytearray, end_offset: int, leader_epoch: int, max_batch_bytes: int) -> PlannedBatches:
    """Give the batches in the buffer their epoch and their offsets from `end_offset` on.  Patches the buffer.

    Raises ProtocolError unless the buffer contains whole batches, at least one; raises RecordTooLargeError.
    """
    plan = PlannedBatches(size=len(buffer))
    position = 0
    end = len(buffer)
    if not end:
        raise ProtocolError("an append of no batches: expected one or more")
    while position < end:
        if end - position < HEADER_BYTES:
            peek_header(buffer, position)
        (
            _,
            length,
            _,
            magic,
            _,
            attributes,
            last_offset_delta,
            _,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            _,
        ) = HEADER.unpack_from(buffer, position)
        size = length + FRAME_BYTES
        if magic != MAGIC or size < HEADER_BYTES or last_offset_delta < 0:
            peek_header(buffer, position)
        if size > end - position:
            raise ProtocolError(f"batch at position {position}: {end - position} bytes are left, it has {size}")
        if size > max_batch_bytes:
            raise RecordTooLargeError(f"a batch of {size} bytes: the limit is {max_batch_bytes}")
        _BASE_OFFSET.pack_into(buffer, position, end_offset)
        _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)
        last_offset = end_offset + last_offset_delta
        plan.batches.append(
            PlannedBatch(
                size,
                end_offset,
                last_offset,
                leader_epoch,
                max_timestamp_ms,
                producer_id,
                producer_epoch,
                base_sequence,
            )
        )
        if attributes & CONTROL_ATTRIBUTE:
            plan.control_records += decode_control_batch(buffer, position, peek_header(buffer, position))
        end_offset = last_offset + 1
        position += size
    return plan


def plan_follower_append(
    buffer: Buffer, end_offset: int, latest_epoch: int, max_epoch: int | None = None
) -> PlannedBatches:
    """Check that the batches a leader sent continue this log.  Ignores an incomplete batch at the end.

    Raises ProtocolError for a wrong header or CRC, an offset other than the next one, an epoch below the newest or
    above `max_epoch`, and a control record that cannot be read.
    """
    plan = PlannedBatches(size=whole_batches_size(buffer))
    position = 0
    with memoryview(buffer) as view:
        while position < plan.size:
            (
                base_offset,
                length,
                leader_epoch,
                magic,
                crc,
                attributes,
                last_offset_delta,
                _,
                max_timestamp_ms,
                producer_id,
                producer_epoch,
                base_sequence,
                record_count,
            ) = HEADER.unpack_from(buffer, position)
            if magic != MAGIC or base_offset < 0 or last_offset_delta < 0 or record_count < 0:
                peek_header(buffer, position)
            size = length + FRAME_BYTES
            if crc32c(view[position + CRC_START : position + size]) != crc:
                check_crc(buffer, position, peek_header(buffer, position))
            if base_offset != end_offset:
                raise ProtocolError(f"batch at offset {base_offset}: expected offset {end_offset}, the end of the log")
            if leader_epoch < latest_epoch or (max_epoch is not None and leader_epoch > max_epoch):
                highest = "" if max_epoch is None else f" to {max_epoch}"
                raise ProtocolError(
                    f"batch at offset {base_offset}: leader epoch {leader_epoch}, expected "
                    f"{latest_epoch}{highest or ' or more'}"
                )
            last_offset = base_offset + last_offset_delta
            plan.batches.append(
                PlannedBatch(
                    size,
                    base_offset,
                    last_offset,
                    leader_epoch,
                    max_timestamp_ms,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                )
            )
            if attributes & CONTROL_ATTRIBUTE:
                plan.control_records += _followed_control_records(buffer, position)
            latest_epoch = leader_epoch
            end_offset = last_offset + 1
            position += size
    return plan


def _followed_control_records(buffer: Buffer, position: int) -> list[tuple[int, ControlRecord]]:
    """Return the control records of a leader's batch.  Each must have its own offset, because they are folded by it."""
    header = peek_header(buffer, position)
    if header.record_count != header.last_offset_delta + 1:
        raise ProtocolError(
            f"control batch at offset {header.base_offset}: {header.record_count} records with last offset delta "
            f"{header.last_offset_delta}, expected {header.last_offset_delta + 1} records"
        )
    check_records(buffer, position, header, DEFAULT_MAX_DECOMPRESSED_BYTES)
    return list(decode_control_batch(buffer, position, header))
