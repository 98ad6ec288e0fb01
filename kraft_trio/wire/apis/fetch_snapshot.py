"""FetchSnapshot: a replica reads a piece of a snapshot (KIP-630, KIP-853)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, OffsetAndEpoch
from kraft_trio.wire.apis.endpoints import fields_of_leader_endpoint, leader_endpoint_of_fields
from kraft_trio.wire.apis.one_partition import (
    NO_PARTITION,
    NO_TOPIC,
    fields_of_answered_topic,
    fields_of_topic,
    topic_of_request,
    topic_of_response,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

_NO_SNAPSHOT_ID: Final = OffsetAndEpoch(-1, -1)


@attrs.frozen
class FetchSnapshotRequest:
    """Asks for at most `max_bytes` bytes of the snapshot, from `position` on."""

    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topic: str
    partition: int
    current_leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    replica_directory_id: UUID = NO_DIRECTORY_ID


@attrs.frozen
class FetchSnapshotResponse:
    """`size` is the size of the whole snapshot in bytes.  `unaligned_records` may begin and end within a batch."""

    error: ErrorCode = ErrorCode.none
    partition_error: ErrorCode = ErrorCode.none
    topic: str = NO_TOPIC
    partition: int = 0
    snapshot_id: OffsetAndEpoch = _NO_SNAPSHOT_ID
    leader_id: int = -1
    leader_epoch: int = -1
    size: int = 0
    position: int = 0
    unaligned_records: bytes | memoryview = b""
    leader_endpoint: Endpoint | None = None


def _fields_of_request(request: FetchSnapshotRequest, version: int) -> Fields:
    partition = {
        "partition": request.partition,
        "current_leader_epoch": request.current_leader_epoch,
        "snapshot_id": {"end_offset": request.snapshot_id.offset, "epoch": request.snapshot_id.epoch},
        "position": request.position,
        "replica_directory_id": request.replica_directory_id,
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "max_bytes": request.max_bytes,
        "topics": fields_of_topic(request.topic, partition),
    }


_NO_SNAPSHOT: Final[Fields] = {"end_offset": -1, "epoch": -1}


def _request_of_fields(fields: Fields, version: int) -> FetchSnapshotRequest:
    topic, partition = topic_of_request(fields)
    snapshot_id = partition.get("snapshot_id", _NO_SNAPSHOT)
    return FetchSnapshotRequest(
        cluster_id=fields["cluster_id"],
        replica_id=fields["replica_id"],
        max_bytes=fields["max_bytes"],
        topic=topic,
        partition=partition.get("partition", NO_PARTITION),
        current_leader_epoch=partition.get("current_leader_epoch", -1),
        snapshot_id=OffsetAndEpoch(snapshot_id["end_offset"], snapshot_id["epoch"]),
        position=partition.get("position", -1),
        replica_directory_id=partition.get("replica_directory_id", NO_DIRECTORY_ID),
    )


def _fields_of_response(response: FetchSnapshotResponse, version: int) -> Fields:
    partition = {
        "index": response.partition,
        "error_code": response.partition_error,
        "snapshot_id": {"end_offset": response.snapshot_id.offset, "epoch": response.snapshot_id.epoch},
        "current_leader": {"leader_id": response.leader_id, "leader_epoch": response.leader_epoch},
        "size": response.size,
        "position": response.position,
        "unaligned_records": response.unaligned_records,
    }
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "topics": fields_of_answered_topic(response.error, response.topic, partition),
        "node_endpoints": fields_of_leader_endpoint(response.leader_id, response.leader_endpoint),
    }


def _response_of_fields(fields: Fields, version: int) -> FetchSnapshotResponse:
    topic, partition = topic_of_response(fields)
    if partition is None:
        return FetchSnapshotResponse(error=fields["error_code"])
    leader = partition["current_leader"]
    return FetchSnapshotResponse(
        partition_error=partition["error_code"],
        topic=topic,
        partition=partition["index"],
        snapshot_id=OffsetAndEpoch(partition["snapshot_id"]["end_offset"], partition["snapshot_id"]["epoch"]),
        leader_id=leader["leader_id"],
        leader_epoch=leader["leader_epoch"],
        size=partition["size"],
        position=partition["position"],
        unaligned_records=partition["unaligned_records"],
        leader_endpoint=leader_endpoint_of_fields(leader["leader_id"], fields),
    )


_SCHEMA: Final = """\
request
    replica_id: int32
    max_bytes: int32
    topics: [TopicSnapshot]
        name: string
        partitions: [PartitionSnapshot]
            partition: int32
            current_leader_epoch: int32
            snapshot_id: SnapshotId
                end_offset: int64
                epoch: int32
            position: int64
            replica_directory_id: uuid 1+ tag 0
    cluster_id: string? tag 0 = null
response
    throttle_time: int32
    error_code: error_code
    topics: [TopicSnapshot]
        name: string
        partitions: [PartitionSnapshot]
            index: int32
            error_code: error_code
            snapshot_id: SnapshotId
                end_offset: int64
                epoch: int32
            size: int64
            position: int64
            unaligned_records: records
            current_leader: LeaderIdAndEpoch tag 0
                leader_id: int32
                leader_epoch: int32
    node_endpoints: [NodeEndpoint] 1+ tag 0
        node_id: int32
        host: string
        port: uint16
"""

FETCH_SNAPSHOT: Final = Api(
    key=59,
    name="FetchSnapshot",
    schema=_SCHEMA,
    min_version=0,
    max_version=1,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: FetchSnapshotResponse(error=error),
)
