"""Tells batches that an idempotent producer sends again from those of a stranger in their place."""

from __future__ import annotations

from kraft_trio.errors import OffsetOutOfRangeError
from kraft_trio.protocol.producers import Accept, Duplicate, Refuse
from kraft_trio.storage.batches.batch_header import CRC_POSITION, BatchHeader
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import REFUSALS, ErrorCode


def answer_to_sequence(log: Log, batch: bytes, header: BatchHeader) -> Duplicate | ProducePartitionResponse | None:
    """None for a batch to append, a Duplicate for one that the log has, and otherwise the refusal.

    Sequences do not tell whose batch it is: anybody who knows a producer's id can use them.  So a batch is a duplicate
    only if the log has the same bytes.  Raises what `Log.read` raises for a log that cannot be read.
    """
    producers = log.producers
    match producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.record_count):
        case Accept():
            return None
        case Duplicate(base_offset=base_offset) as duplicate:
            if _holds(log, base_offset, batch):
                return duplicate
            return ProducePartitionResponse(
                error=ErrorCode.out_of_order_sequence_number,
                base_offset=base_offset,
                log_append_time_ms=producers.timestamp_ms(header.producer_id),
                error_message=f"producer {header.producer_id}: the log has another batch with base sequence "
                f"{header.base_sequence}, at offset {base_offset}",
            )
        case Refuse(error=refusal, reason=reason, is_older=is_older):
            at_ms = producers.timestamp_ms(header.producer_id) if is_older else -1
            return ProducePartitionResponse(error=REFUSALS[refusal], log_append_time_ms=at_ms, error_message=reason)


def _holds(log: Log, base_offset: int, batch: bytes) -> bool:
    """Whether the log has these bytes there, apart from what a leader sets.  True if they have been trimmed."""
    try:
        stored = log.read(base_offset, len(batch))
    except OffsetOutOfRangeError:
        return True
    return stored[CRC_POSITION : len(batch)] == batch[CRC_POSITION:]
