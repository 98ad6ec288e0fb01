"""A quorum's leader with a log of a few batches, without a network."""

from __future__ import annotations

from typing import Any

import attrs

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.node_answer import DEFAULT_TOPIC, DEFAULT_TOPIC_ID
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.spark.live.quorum import QuorumLeader
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, peek_header
from kraft_trio.wire.api import FETCH
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest, FetchResponse
from kraft_trio.wire.error_codes import ErrorCode

CLUSTER = "a cluster"
LEADER_EPOCH = 4


def batch(base_offset: int, epoch: int, records: int = 10, timestamp_ms: int = 0) -> bytes:
    """Each record is a millisecond later than the one before."""
    values = [
        NewRecord(f"{base_offset + index}".encode(), timestamp_ms=timestamp_ms + index) for index in range(records)
    ]
    return encode_batch(values, timestamp_ms=timestamp_ms, base_offset=base_offset, leader_epoch=epoch)


@attrs.define
class ScriptedLog:
    """Stands for a connection to a leader that gives all that it has, as Kafka's controllers do, committed or not."""

    batches: dict[int, bytes]
    """By their base offsets."""
    high_watermark: int
    log_start_offset: int = 0
    error: ErrorCode | None = None
    diverging: OffsetAndEpoch | None = None
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Oldest first: who asks for the log's start is judged by them as Kafka's controllers judge a replica."""
    asked: list[FetchRequest] = attrs.field(factory=list)

    async def request(self, api: object, request: FetchRequest) -> FetchResponse:
        if api is not FETCH:
            raise UnsupportedVersionError("not served, as by Kafka's controllers")
        self.asked.append(request)
        [partition] = request.partitions
        offset = partition.fetch_offset
        end = max((peek_header(held).next_offset for held in self.batches.values()), default=self.log_start_offset)
        error, records, snapshot_id = ErrorCode.none, b"", None
        if self.error is not None:
            error = self.error
        elif not self.log_start_offset <= offset <= end:
            error = ErrorCode.offset_out_of_range
        elif self._offers_snapshot(offset, partition.last_fetched_epoch):
            snapshot_id = self.snapshots[-1]
        elif self.diverging is None:
            held = (held for _, held in sorted(self.batches.items()))
            records = b"".join(batch for batch in held if peek_header(batch).next_offset > offset)
        told = FetchPartitionResponse(
            partition.topic_name,
            partition.topic_id,
            0,
            error,
            self.high_watermark,
            self.high_watermark,
            self.log_start_offset,
            records,
            self.diverging,
            snapshot_id=snapshot_id,
        )
        return FetchResponse(partitions=(told,))

    def _offers_snapshot(self, offset: int, last_fetched_epoch: int) -> bool:
        if not self.snapshots or offset == 0:
            return bool(self.snapshots)
        return offset == self.log_start_offset and last_fetched_epoch != self.snapshots[0].epoch


def leader_of(log: Any, high_watermark: int | None = None) -> QuorumLeader:
    known = log.high_watermark if high_watermark is None else high_watermark
    return QuorumLeader(
        LeaderConnection(
            log,
            Endpoint("one", 1),
            DEFAULT_TOPIC,
            DEFAULT_TOPIC_ID,
            request_timeout_ms=1000,
            cluster_id=CLUSTER,
            epoch=LEADER_EPOCH,
            high_watermark=known,
        )
    )


THREE = {0: batch(0, 1), 10: batch(10, 1), 20: batch(20, 4)}
"""Three batches of ten records."""
