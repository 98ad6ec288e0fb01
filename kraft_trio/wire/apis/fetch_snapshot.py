"""FetchSnapshot: a replica reads a piece of a snapshot (KIP-630, KIP-853)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch
from kraft_trio.wire.apis.endpoints import LeaderEndpoint
from kraft_trio.wire.apis.one_partition import (
    ANSWERED_PARTITIONS,
    NO_TOPIC,
    AnsweredTopicName,
    OfAnsweredPartition,
    OfPartition,
    TopicName,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int32, Int64, Nest, Parts, Place, Records, String, Uuid, Via

_NO_SNAPSHOT_ID: Final = OffsetAndEpoch(-1, -1)
_SnapshotId: TypeAlias = Annotated[OffsetAndEpoch, Parts(offset=Int64, epoch=Int32)]
_LEADER: Final = Nest("current_leader", Place(tag=0), inside=ANSWERED_PARTITIONS)


@attrs.frozen
class FetchSnapshotRequest:
    """Asks for at most `max_bytes` bytes of the snapshot, from `position` on."""

    cluster_id: Annotated[String | None, Place(tag=0)]
    replica_id: Int32
    max_bytes: Int32
    topic: Annotated[TopicName, "name"]
    partition: OfPartition[Int32]
    current_leader_epoch: OfPartition[Int32]
    snapshot_id: OfPartition[_SnapshotId]
    position: OfPartition[Int64]
    replica_directory_id: OfPartition[Annotated[Uuid, Place(since=1, tag=0)]] = NO_DIRECTORY_ID


@attrs.frozen
class FetchSnapshotResponse:
    """`size` is the size of the whole snapshot in bytes.  `unaligned_records` may begin and end within a batch."""

    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    topic: Annotated[AnsweredTopicName, "name"] = NO_TOPIC
    partition: OfAnsweredPartition[Int32] = 0
    partition_error: OfAnsweredPartition[Error] = ErrorCode.none
    snapshot_id: OfAnsweredPartition[_SnapshotId] = _NO_SNAPSHOT_ID
    size: OfAnsweredPartition[Int64] = 0
    position: OfAnsweredPartition[Int64] = 0
    unaligned_records: OfAnsweredPartition[Annotated[bytes | memoryview, Via(Records)]] = b""
    leader_id: Annotated[Int32, _LEADER, Place(absent=0)] = -1
    leader_epoch: Annotated[Int32, _LEADER, Place(absent=0)] = -1
    leader_endpoint: Annotated[LeaderEndpoint, Place(since=1, tag=0)] = None


FETCH_SNAPSHOT: Final = Api(
    key=59,
    name="FetchSnapshot",
    request=FetchSnapshotRequest,
    response=FetchSnapshotResponse,
    min_version=0,
    max_version=1,
    flexible_version=0,
    error_response=lambda error, _message: FetchSnapshotResponse(error=error),
)
