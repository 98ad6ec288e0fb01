"""Consumers' reads from a node that does not lead, for a client that asks for them.

What a replica knows to be committed never changes, so such a read is right, but it may be behind the leader.
"""

from __future__ import annotations

from kraft_trio.actors.replication.leader_fetches import MAX_FETCH_BYTES
from kraft_trio.messages import Asker, QuorumView
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode


def read_committed(
    log: Log, view: QuorumView, request: FetchRequest, partition: FetchPartition, asker: Asker | None
) -> FetchPartitionResponse:
    """The batches from the offset on that this replica knows to be committed, perhaps none.

    Answers at once: a replica has no place where consumers wait.  Raises StorageFailure and CorruptLogError.
    """
    high_watermark = log.high_watermark
    is_trimmed = partition.fetch_offset < log.log_start_offset
    records = b""
    if high_watermark is not None and log.log_start_offset <= partition.fetch_offset < high_watermark:
        room = MAX_FETCH_BYTES if asker is None else asker.answer_room()
        if room:
            max_bytes = min(partition.max_bytes, request.max_bytes, MAX_FETCH_BYTES, room)
            records = log.read(partition.fetch_offset, max_bytes, high_watermark)
    known = -1 if high_watermark is None else high_watermark
    return FetchPartitionResponse(
        topic_name=partition.topic_name,
        topic_id=partition.topic_id,
        partition=partition.partition,
        error=ErrorCode.offset_out_of_range if is_trimmed else ErrorCode.none,
        high_watermark=known,
        last_stable_offset=known,
        log_start_offset=log.log_start_offset,
        records=records,
        leader_id=-1 if view.leader_id is None else view.leader_id,
        leader_epoch=view.epoch,
    )
