"""Fetch: replicas and consumers read batches; a replica's position is also its acknowledgement (KIP-595).

Up to version 12 a topic goes by its name, from version 13 on by its id (KIP-516); the other one is then empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, OffsetAndEpoch
from kraft_trio.wire.apis.endpoints import fields_of_node_endpoints, node_endpoints_of_fields
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

NO_TOPIC_ID: Final = UUID(int=0)

UNSUPPORTED_HIGH_WATERMARK: Final = 2**63 - 1
"""The high watermark of a replica that does not tell it (KIP-1166, before version 18); -1 is "not known yet"."""

CONSUMER_REPLICA_ID: Final = -1


@attrs.frozen
class FetchPartition:
    """From where to read one partition.  `fetch_offset` is the exclusive end of what the replica holds."""

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


@attrs.frozen
class FetchPartitionResponse:
    """What was read of one partition: at most one of records, `diverging` and `snapshot_id` says something."""

    topic_name: str
    topic_id: UUID
    partition: int
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    """Exclusive; -1 for not known."""
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging: OffsetAndEpoch | None = None
    """The largest epoch, not above the one asked for, that the leader has, and its exclusive end."""
    leader_id: int = -1
    leader_epoch: int = -1
    snapshot_id: OffsetAndEpoch | None = None


@attrs.frozen
class FetchResponse:
    """`node_endpoints` is where the leaders named in the partitions are; versions below 16 cannot say."""

    error: ErrorCode = ErrorCode.none
    session_id: int = 0
    partitions: tuple[FetchPartitionResponse, ...] = ()
    node_endpoints: tuple[tuple[int, Endpoint], ...] = ()


def _by_topic(partitions: Sequence[Any]) -> list[tuple[str, UUID, list[Any]]]:
    """Neighbouring partitions of one topic together, in their order."""
    if len(partitions) == 1:
        only = partitions[0]
        return [(only.topic_name, only.topic_id, [only])]
    groups = groupby(partitions, key=lambda partition: (partition.topic_name, partition.topic_id))
    return [(name, topic_id, list(members)) for (name, topic_id), members in groups]


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
            for name, topic_id, members in _by_topic(request.partitions)
        ],
        "forgotten_topics_data": (),
        "rack_id": "",
    }


def _partition_of_fields(name: str, topic_id: UUID, fields: Fields) -> FetchPartition:
    return FetchPartition(
        topic_name=name,
        topic_id=topic_id,
        partition=fields["partition"],
        fetch_offset=fields["fetch_offset"],
        max_bytes=fields["partition_max_bytes"],
        current_leader_epoch=fields.get("current_leader_epoch", -1),
        last_fetched_epoch=fields.get("last_fetched_epoch", -1),
        log_start_offset=fields.get("log_start_offset", -1),
        replica_directory_id=fields.get("replica_directory_id", NO_DIRECTORY_ID),
        high_watermark=fields.get("high_watermark", UNSUPPORTED_HIGH_WATERMARK),
    )


def _request_of_fields(fields: Fields, version: int) -> FetchRequest:
    return FetchRequest(
        cluster_id=fields.get("cluster_id"),
        replica_id=fields["replica_state"]["replica_id"] if version >= 15 else fields["replica_id"],
        max_wait_ms=fields["max_wait"],
        min_bytes=fields["min_bytes"],
        max_bytes=fields["max_bytes"],
        isolation_level=fields["isolation_level"],
        session_id=fields.get("session_id", 0),
        session_epoch=fields.get("session_epoch", -1),
        partitions=tuple(
            _partition_of_fields(topic.get("topic", ""), topic.get("topic_id", NO_TOPIC_ID), partition)
            for topic in fields["topics"]
            for partition in topic["partitions"]
        ),
    )


_NO_DIVERGING: Final[Fields] = {"epoch": -1, "end_offset": -1}
_NO_SNAPSHOT: Final[Fields] = {"end_offset": -1, "epoch": -1}


def _fields_of_end(end: OffsetAndEpoch | None, absent: Fields) -> Fields:
    return absent if end is None else {"end_offset": end.offset, "epoch": end.epoch}


def _end_of_fields(fields: Fields | None, absent: Fields) -> OffsetAndEpoch | None:
    return None if fields is None or fields == absent else OffsetAndEpoch(fields["end_offset"], fields["epoch"])


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
    }


def _fields_of_response(response: FetchResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "session_id": response.session_id,
        "responses": [
            {"topic": name, "topic_id": topic_id, "partitions": [_fields_of_answer(member) for member in members]}
            for name, topic_id, members in _by_topic(response.partitions)
        ],
        "node_endpoints": fields_of_node_endpoints(response.node_endpoints),
    }


_UNKNOWN_LEADER: Final[Fields] = {"leader_id": -1, "leader_epoch": -1}


def _answer_of_fields(name: str, topic_id: UUID, fields: Fields) -> FetchPartitionResponse:
    leader = fields.get("current_leader", _UNKNOWN_LEADER)
    return FetchPartitionResponse(
        topic_name=name,
        topic_id=topic_id,
        partition=fields["partition_index"],
        error=fields["error_code"],
        high_watermark=fields["high_watermark"],
        last_stable_offset=fields["last_stable_offset"],
        log_start_offset=fields.get("log_start_offset", -1),
        records=fields["records"] or b"",
        diverging=_end_of_fields(fields.get("diverging_epoch"), _NO_DIVERGING),
        leader_id=leader["leader_id"],
        leader_epoch=leader["leader_epoch"],
        snapshot_id=_end_of_fields(fields.get("snapshot_id"), _NO_SNAPSHOT),
    )


def _response_of_fields(fields: Fields, version: int) -> FetchResponse:
    return FetchResponse(
        error=fields.get("error_code", ErrorCode.none),
        session_id=fields.get("session_id", 0),
        partitions=tuple(
            _answer_of_fields(topic.get("topic", ""), topic.get("topic_id", NO_TOPIC_ID), partition)
            for topic in fields["responses"]
            for partition in topic["partitions"]
        ),
        node_endpoints=node_endpoints_of_fields(fields),
    )


FETCH: Final = Api(
    key=1,
    name="Fetch",
    package="fetch",
    min_version=4,
    max_version=18,
    flexible_version=12,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: FetchResponse(error=error),
)
