"""AlterPartitionReassignments: sets or cancels the target voters of the quorum's partition (KIP-455, KIP-642).

Kafka's request names replicas by their ids.  A tagged field of our own can add their directory ids, which name the
disks too.  A reader that does not know the field skips it.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.wire.apis.topics import by_name
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

"""Far above the tags that Kafka uses."""


@attrs.frozen
class ReassignedPartition:
    """`replicas` are the target voters; None cancels the reassignment.  A directory id may be unknown."""

    topic_name: str
    partition: int
    replicas: tuple[ReplicaKey, ...] | None


@attrs.frozen
class AlterPartitionReassignmentsRequest:
    """`timeout_ms` bounds the leader's wait for the commit of the target, not the reassignment itself."""

    timeout_ms: int
    partitions: tuple[ReassignedPartition, ...]
    allow_replication_factor_change: bool = True
    """Whether the target may have another number of voters (KIP-860); below version 1 it may."""


@attrs.frozen
class ReassignmentResult:
    """The outcome for one partition."""

    topic_name: str
    partition: int
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@attrs.frozen
class AlterPartitionReassignmentsResponse:
    """If the whole request failed, `error` says why, and there are no results."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[ReassignmentResult, ...] = ()


def _fields_of_request(request: AlterPartitionReassignmentsRequest, version: int) -> Fields:
    return {
        "timeout": request.timeout_ms,
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": partition.partition, **_fields_of_replicas(partition.replicas)}
                    for partition in partitions
                ],
            }
            for name, partitions in by_name(request.partitions)
        ],
    }


def _request_of_fields(fields: Fields, version: int) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        fields["timeout"],
        tuple(
            ReassignedPartition(
                topic["name"],
                partition["partition_index"],
                _replicas_of_fields(partition),
            )
            for topic in fields["topics"]
            for partition in topic["partitions"]
        ),
        fields.get("allow_replication_factor_change", True),
    )


def _fields_of_replicas(replicas: tuple[ReplicaKey, ...] | None) -> Fields:
    if replicas is None:
        return {"replicas": None, "directory_ids": []}
    is_exact = any(key.directory_id != NO_DIRECTORY_ID for key in replicas)
    return {
        "replicas": [key.id for key in replicas],
        "directory_ids": [key.directory_id for key in replicas] if is_exact else [],
    }


def _replicas_of_fields(fields: Fields) -> tuple[ReplicaKey, ...] | None:
    ids, directory_ids = fields["replicas"], fields["directory_ids"]
    if directory_ids and len(directory_ids) != len(ids or ()):
        raise ProtocolError(f"directory_ids: {len(directory_ids)} for {len(ids or ())} replicas, expected one for each")
    if ids is None:
        return None
    return tuple(map(ReplicaKey, ids, directory_ids)) if directory_ids else tuple(map(ReplicaKey, ids))


def _fields_of_response(response: AlterPartitionReassignmentsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "allow_replication_factor_change": True,
        "error_code": response.error,
        "error_message": response.error_message,
        "responses": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": result.partition,
                        "error_code": result.error,
                        "error_message": result.error_message,
                    }
                    for result in results
                ],
            }
            for name, results in by_name(response.results)
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        fields["error_code"],
        fields["error_message"],
        tuple(
            ReassignmentResult(
                topic["name"], partition["partition_index"], partition["error_code"], partition["error_message"]
            )
            for topic in fields["responses"]
            for partition in topic["partitions"]
        ),
    )


_SCHEMA: Final = """\
request
    timeout: int32
    allow_replication_factor_change: bool 1+
    topics: [ReassignableTopic]
        name: string
        partitions: [ReassignablePartition]
            partition_index: int32
            replicas: [int32]?
            directory_ids: [uuid] tag 10000
response
    throttle_time: int32
    allow_replication_factor_change: bool 1+
    error_code: error_code
    error_message: string?
    responses: [ReassignableTopicResponse]
        name: string
        partitions: [ReassignablePartitionResponse]
            partition_index: int32
            error_code: error_code
            error_message: string?
"""

ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    key=45,
    name="AlterPartitionReassignments",
    schema=_SCHEMA,
    min_version=0,
    max_version=1,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=AlterPartitionReassignmentsResponse,
)
