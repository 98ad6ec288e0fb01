"""ListPartitionReassignments: the reassignment of the quorum's voters that is under way (KIP-455, KIP-642)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.apis.topics import by_name
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class ListPartitionReassignmentsRequest:
    """`partitions` are pairs of a topic's name and a partition; None means all."""

    timeout_ms: int
    partitions: tuple[tuple[str, int], ...] | None = None


@attrs.frozen
class OngoingReassignment:
    """The target is `replicas` without those that are `removing`, as for any partition of Kafka."""

    topic_name: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@attrs.frozen
class ListPartitionReassignmentsResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    reassignments: tuple[OngoingReassignment, ...] = ()


def _fields_of_request(request: ListPartitionReassignmentsRequest, version: int) -> Fields:
    if request.partitions is None:
        return {"timeout": request.timeout_ms, "topics": None}
    topics: dict[str, list[int]] = {}
    for name, partition in request.partitions:
        topics.setdefault(name, []).append(partition)
    return {
        "timeout": request.timeout_ms,
        "topics": [{"name": name, "partition_indexes": partitions} for name, partitions in topics.items()],
    }


def _request_of_fields(fields: Fields, version: int) -> ListPartitionReassignmentsRequest:
    topics = fields["topics"]
    return ListPartitionReassignmentsRequest(
        fields["timeout"],
        None
        if topics is None
        else tuple((topic["name"], partition) for topic in topics for partition in topic["partition_indexes"]),
    )


def _fields_of_response(response: ListPartitionReassignmentsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "error_message": response.error_message,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": reassignment.partition,
                        "replicas": list(reassignment.replicas),
                        "adding_replicas": list(reassignment.adding),
                        "removing_replicas": list(reassignment.removing),
                    }
                    for reassignment in reassignments
                ],
            }
            for name, reassignments in by_name(response.reassignments)
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        fields["error_code"],
        fields["error_message"],
        tuple(
            OngoingReassignment(
                topic["name"],
                partition["partition_index"],
                tuple(partition["replicas"]),
                tuple(partition["adding_replicas"]),
                tuple(partition["removing_replicas"]),
            )
            for topic in fields["topics"]
            for partition in topic["partitions"]
        ),
    )


_SCHEMA: Final = """\
request
    timeout: int32
    topics: [ListPartitionReassignmentsTopics]?
        name: string
        partition_indexes: [int32]
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
    topics: [OngoingTopicReassignment]
        name: string
        partitions: [OngoingPartitionReassignment]
            partition_index: int32
            replicas: [int32]
            adding_replicas: [int32]
            removing_replicas: [int32]
"""

LIST_PARTITION_REASSIGNMENTS: Final = Api(
    key=46,
    name="ListPartitionReassignments",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=ListPartitionReassignmentsResponse,
)
