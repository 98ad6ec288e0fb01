"""Fetch: replicas and consumers read batches.  A replica's position is also its acknowledgement (KIP-595).

A topic is named up to version 12 and has an id from version 13 on (KIP-516); the other field is then empty.

KIP-853 leaves it to the application to tell the leader which kraft.versions an observer supports.  Our request has a
tagged field for them; a leader that does not know it skips it.  Another one has the listeners of a controller that is
no voter, so that the leader can make it a voter when an administrator names nothing but its id (KIP-642).

More serve read barriers (docs/explanation/protocol.md#read-barriers): a response has the round that a read waits for,
and a voter's next Fetch returns it.  With it, the voter may promise to wait if it is elected
(docs/explanation/protocol.md#read-leases).
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.read_barrier import NO_ROUND
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch, VersionRange
from kraft_trio.wire.apis.endpoints import (
    fields_of_listeners,
    fields_of_node_endpoints,
    listeners_of_fields,
    node_endpoints_of_fields,
)
from kraft_trio.wire.apis.topics import NO_TOPIC_ID, by_topic
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

UNSUPPORTED_HIGH_WATERMARK: Final = 2**63 - 1
"""The high watermark of a replica that does not send it (KIP-1166, below version 18).  -1 means that it is unknown."""

CONSUMER_REPLICA_ID: Final = -1

OWN_FIELDS_SINCE: Final = 17
"""The first version that names the replica's directory id, by which the leader knows an observer."""


@attrs.frozen
class FetchPartition:
    """The position in one partition.  `fetch_offset` is the exclusive end of the replica's log."""

    topic_name: str
    topic_id: UUID
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    replica_directory_id: UUID = NO_DIRECTORY_ID
    high_watermark: int = UNSUPPORTED_HIGH_WATERMARK


@attrs.frozen
class FetchRequest:
    """`replica_id` is CONSUMER_REPLICA_ID for consumers; a `session_epoch` of -1 means no fetch session (KIP-227)."""

    cluster_id: str | None = None
    replica_id: int = CONSUMER_REPLICA_ID
    max_wait_ms: int = 500
    min_bytes: int = 0
    max_bytes: int = 2**31 - 1
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    partitions: tuple[FetchPartition, ...] = ()
    kraft_versions: VersionRange | None = None
    """What an observer supports.  Voters tell it with UpdateRaftVoter."""
    listeners: Endpoints = Endpoints()
    """The listeners of a controller that is no voter; otherwise, and below version 17, empty."""
    read_round: int = NO_ROUND
    """The round of the last response of this leader, or NO_ROUND."""
    read_lease_wait_ms: int = 0
    """How long the voter would commit nothing if it were elected.  Only with a round, and 0 without leases."""


@attrs.frozen
class FetchPartitionResponse:
    """The answer for one partition: at most one of `records`, `diverging` and `snapshot_id` is set."""

    topic_name: str
    topic_id: UUID
    partition: int
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    """Exclusive, or -1 if it is unknown."""
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging: OffsetAndEpoch | None = None
    """The leader's largest epoch that is not above the requested one, and the exclusive end of that epoch."""
    leader_id: int = -1
    leader_epoch: int = -1
    snapshot_id: OffsetAndEpoch | None = None
    read_round: int = NO_ROUND
    """The round of the newest read that waits at the leader.  Only for voters, and NO_ROUND if no read waits."""


@attrs.frozen
class FetchResponse:
    """`node_endpoints` has the endpoints of the leaders that the partitions name; versions below 16 have none."""

    error: ErrorCode = ErrorCode.none
    session_id: int = 0
    partitions: tuple[FetchPartitionResponse, ...] = ()
    node_endpoints: tuple[tuple[int, Endpoint], ...] = ()


def _fields_of_partition(partition: FetchPartition) -> Fields:
    return {
        "partition": partition.partition,
        "current_leader_epoch": partition.current_leader_epoch,
        "fetch_offset": partition.fetch_offset,
        "last_fetched_epoch": partition.last_fetched_epoch,
        "log_start_offset": partition.log_start_offset,
        "partition_max_bytes": partition.max_bytes,
        "replica_directory_id": partition.replica_directory_id,
        "high_watermark": partition.high_watermark,
    }


_NO_VERSIONS: Final[Fields] = {"minimum": -1, "maximum": -1}


def _fields_of_versions(versions: VersionRange | None) -> Fields:
    return _NO_VERSIONS if versions is None else {"minimum": versions.minimum, "maximum": versions.maximum}


def _fields_of_request(request: FetchRequest, version: int) -> Fields:
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": -1},
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {"topic": name, "topic_id": topic_id, "partitions": [_fields_of_partition(member) for member in members]}
            for name, topic_id, members in by_topic(request.partitions)
        ],
        "forgotten_topics_data": (),
        "rack_id": "",
        "kraft_versions": _fields_of_versions(request.kraft_versions),
        "listeners": fields_of_listeners(request.listeners),
        "read_round": request.read_round,
        "read_lease_wait": request.read_lease_wait_ms,
    }


def _partition_of_fields(name: str, topic_id: UUID, fields: Fields) -> FetchPartition:
    get = fields.get
    return FetchPartition(
        name,
        topic_id,
        fields["partition"],
        fields["fetch_offset"],
        fields["partition_max_bytes"],
        get("current_leader_epoch", -1),
        get("last_fetched_epoch", -1),
        get("log_start_offset", -1),
        get("replica_directory_id", NO_DIRECTORY_ID),
        get("high_watermark", UNSUPPORTED_HIGH_WATERMARK),
    )


def _request_of_fields(fields: Fields, version: int) -> FetchRequest:
    partitions = [
        _partition_of_fields(topic.get("topic", ""), topic.get("topic_id", NO_TOPIC_ID), partition)
        for topic in fields["topics"]
        for partition in topic["partitions"]
    ]
    versions = fields.get("kraft_versions", _NO_VERSIONS)
    return FetchRequest(
        fields.get("cluster_id"),
        fields["replica_state"]["replica_id"] if version >= 15 else fields["replica_id"],
        fields["max_wait"],
        fields["min_bytes"],
        fields["max_bytes"],
        fields["isolation_level"],
        fields.get("session_id", 0),
        fields.get("session_epoch", -1),
        tuple(partitions),
        None if versions == _NO_VERSIONS else VersionRange(versions["minimum"], versions["maximum"]),
        listeners_of_fields(fields.get("listeners", ())),
        fields.get("read_round", NO_ROUND),
        fields.get("read_lease_wait", 0),
    )


_NO_DIVERGING: Final[Fields] = {"epoch": -1, "end_offset": -1}
_NO_SNAPSHOT: Final[Fields] = {"end_offset": -1, "epoch": -1}


def _fields_of_end(end: OffsetAndEpoch | None, absent: Fields) -> Fields:
    return absent if end is None else {"end_offset": end.offset, "epoch": end.epoch}


def _fields_of_answer(answer: FetchPartitionResponse) -> Fields:
    return {
        "partition_index": answer.partition,
        "error_code": answer.error,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "log_start_offset": answer.log_start_offset,
        "diverging_epoch": _fields_of_end(answer.diverging, _NO_DIVERGING),
        "current_leader": {"leader_id": answer.leader_id, "leader_epoch": answer.leader_epoch},
        "snapshot_id": _fields_of_end(answer.snapshot_id, _NO_SNAPSHOT),
        "aborted_transactions": (),
        "preferred_read_replica": -1,
        "records": answer.records,
        "read_round": answer.read_round,
    }


def _fields_of_response(response: FetchResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "session_id": response.session_id,
        "responses": [
            {"topic": name, "topic_id": topic_id, "partitions": [_fields_of_answer(member) for member in members]}
            for name, topic_id, members in by_topic(response.partitions)
        ],
        "node_endpoints": fields_of_node_endpoints(response.node_endpoints),
    }


_UNKNOWN_LEADER: Final[Fields] = {"leader_id": -1, "leader_epoch": -1}


def _answer_of_fields(name: str, topic_id: UUID, fields: Fields) -> FetchPartitionResponse:
    get = fields.get
    leader = get("current_leader", _UNKNOWN_LEADER)
    diverging = get("diverging_epoch", _NO_DIVERGING)
    snapshot_id = get("snapshot_id", _NO_SNAPSHOT)
    return FetchPartitionResponse(
        name,
        topic_id,
        fields["partition_index"],
        fields["error_code"],
        fields["high_watermark"],
        fields["last_stable_offset"],
        get("log_start_offset", -1),
        fields["records"] or b"",
        None if diverging == _NO_DIVERGING else OffsetAndEpoch(diverging["end_offset"], diverging["epoch"]),
        leader["leader_id"],
        leader["leader_epoch"],
        None if snapshot_id == _NO_SNAPSHOT else OffsetAndEpoch(snapshot_id["end_offset"], snapshot_id["epoch"]),
        get("read_round", NO_ROUND),
    )


def _response_of_fields(fields: Fields, version: int) -> FetchResponse:
    partitions = [
        _answer_of_fields(topic.get("topic", ""), topic.get("topic_id", NO_TOPIC_ID), partition)
        for topic in fields["responses"]
        for partition in topic["partitions"]
    ]
    return FetchResponse(
        fields.get("error_code", ErrorCode.none),
        fields.get("session_id", 0),
        tuple(partitions),
        node_endpoints_of_fields(fields),
    )


_SCHEMA: Final = """\
request
    replica_id: int32 4-14
    max_wait: int32
    min_bytes: int32
    max_bytes: int32
    isolation_level: int8
    session_id: int32 7+
    session_epoch: int32 7+
    topics: [FetchTopic]
        topic_id: uuid 13+
        topic: string 4-12
        partitions: [FetchPartition]
            partition: int32
            current_leader_epoch: int32 9+
            fetch_offset: int64
            last_fetched_epoch: int32 12+
            log_start_offset: int64 5+
            partition_max_bytes: int32
            replica_directory_id: uuid 17+ tag 0
            high_watermark: int64 18+ tag 1 = 9223372036854775807
    forgotten_topics_data: [ForgottenTopic] 7+
        topic_id: uuid 13+
        topic: string 7-12
        partitions: [int32]
    rack_id: string 11+
    cluster_id: string? 12+ tag 0 = null
    replica_state: ReplicaState 15+ tag 1
        replica_id: int32 = -1
        replica_epoch: int64 = -1
    listeners: [Listener] 17+ tag 10000
        name: string
        host: string
        port: uint16
    kraft_versions: KRaftVersions 17+ tag 10001
        minimum: int16 = -1
        maximum: int16 = -1
    read_round: int64 17+ tag 10002
    read_lease_wait: int32 17+ tag 10003
response
    throttle_time: int32
    error_code: error_code 7+
    session_id: int32 7+
    responses: [FetchableTopicResponse]
        topic_id: uuid 13+
        topic: string 4-12
        partitions: [PartitionData]
            partition_index: int32
            error_code: error_code
            high_watermark: int64
            last_stable_offset: int64
            log_start_offset: int64 5+
            aborted_transactions: [AbortedTransaction]?
                producer_id: int64
                first_offset: int64
            preferred_read_replica: int32 11+
            records: records?
            diverging_epoch: EpochEndOffset 12+ tag 0
                epoch: int32 = -1
                end_offset: int64 = -1
            current_leader: LeaderIdAndEpoch 12+ tag 1
                leader_id: int32 = -1
                leader_epoch: int32 = -1
            snapshot_id: SnapshotId 12+ tag 2
                end_offset: int64 = -1
                epoch: int32 = -1
            read_round: int64 17+ tag 10002
    node_endpoints: [NodeEndpoint] 16+ tag 0
        node_id: int32
        host: string
        port: int32
        rack: string?
"""

FETCH: Final = Api(
    key=1,
    name="Fetch",
    schema=_SCHEMA,
    min_version=4,
    max_version=18,
    flexible_version=12,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: FetchResponse(error=error),
)
