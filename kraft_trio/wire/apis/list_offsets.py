"""ListOffsets: the offset that belongs to a timestamp, or to a special value such as LATEST (KIP-79)."""

from __future__ import annotations

from itertools import groupby
from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

LATEST: Final = -1
"""The exclusive end of the records that a consumer may read."""
EARLIEST: Final = -2
"""The first offset of the log."""
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734, version 7)."""
EARLIEST_LOCAL: Final = -4
"""The first offset on local disks (KIP-405, version 8)."""
LATEST_TIERED: Final = -5
"""The last offset in remote storage (KIP-1005, version 9)."""
EARLIEST_PENDING_UPLOAD: Final = -6
"""The first offset not yet in remote storage (KIP-1023, version 11)."""


@attrs.frozen
class ListOffsetsPartition:
    """The question for one partition: a timestamp in milliseconds, or one of the special values."""

    topic: str
    partition: int
    timestamp: int
    current_leader_epoch: int = -1


@attrs.frozen
class ListOffsetsRequest:
    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = -1
    isolation_level: int = 0
    timeout_ms: int = 0


@attrs.frozen
class ListOffsetsPartitionResponse:
    """The first record at or after the timestamp.  Its timestamp is -1 if the question was a special value."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.none
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


@attrs.frozen
class ListOffsetsResponse:
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


def _fields_of_request(request: ListOffsetsRequest, version: int) -> Fields:
    return {
        "replica_id": request.replica_id,
        "isolation_level": request.isolation_level,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": member.partition,
                        "current_leader_epoch": member.current_leader_epoch,
                        "timestamp": member.timestamp,
                    }
                    for member in members
                ],
            }
            for name, members in groupby(request.partitions, key=lambda partition: partition.topic)
        ],
        "timeout": request.timeout_ms,
    }


def _request_of_fields(fields: Fields, version: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        partitions=tuple(
            ListOffsetsPartition(
                topic["name"],
                partition["partition_index"],
                partition["timestamp"],
                partition.get("current_leader_epoch", -1),
            )
            for topic in fields["topics"]
            for partition in topic["partitions"]
        ),
        replica_id=fields["replica_id"],
        isolation_level=fields.get("isolation_level", 0),
        timeout_ms=fields.get("timeout", 0),
    )


def _fields_of_response(response: ListOffsetsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": answer.partition,
                        "error_code": answer.error,
                        "timestamp": answer.timestamp_ms,
                        "offset": answer.offset,
                        "leader_epoch": answer.leader_epoch,
                    }
                    for answer in answers
                ],
            }
            for name, answers in groupby(response.partitions, key=lambda answer: answer.topic)
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        tuple(
            ListOffsetsPartitionResponse(
                topic["name"],
                answer["partition_index"],
                answer["error_code"],
                answer["timestamp"],
                answer["offset"],
                answer.get("leader_epoch", -1),
            )
            for topic in fields["topics"]
            for answer in topic["partitions"]
        )
    )


_SCHEMA: Final = """\
request
    replica_id: int32
    isolation_level: int8 2+
    topics: [ListOffsetsTopic]
        name: string
        partitions: [ListOffsetsPartition]
            partition_index: int32
            current_leader_epoch: int32 4+
            timestamp: int64
    timeout: int32 10+
response
    throttle_time: int32 2+
    topics: [ListOffsetsTopicResponse]
        name: string
        partitions: [ListOffsetsPartitionResponse]
            partition_index: int32
            error_code: error_code
            timestamp: int64
            offset: int64
            leader_epoch: int32 4+
"""

LIST_OFFSETS: Final = Api(
    key=2,
    name="ListOffsets",
    schema=_SCHEMA,
    min_version=1,
    max_version=11,
    flexible_version=6,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda _error, _message: ListOffsetsResponse(),
)
