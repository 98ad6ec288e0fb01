"""ListPartitionReassignments: the reassignment of the quorum's voters that is under way (KIP-455, KIP-642)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.wire.apis.topics import PartitionsByTopic
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import SHARED, ByTopic, Error, Int32, String


@attrs.frozen
class ListPartitionReassignmentsRequest:
    """`partitions` are pairs of a topic's name and a partition; None means all."""

    timeout_ms: Int32
    partitions: PartitionsByTopic = None


@attrs.frozen
class OngoingReassignment:
    """The target is `replicas` without those that are `removing`, as for any partition of Kafka."""

    topic_name: Annotated[String, "name", SHARED]
    partition: Int32
    replicas: tuple[Int32, ...]
    adding: Annotated[tuple[Int32, ...], "adding_replicas"]
    removing: Annotated[tuple[Int32, ...], "removing_replicas"]


@attrs.frozen
class ListPartitionReassignmentsResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None
    reassignments: Annotated[tuple[OngoingReassignment, ...], ByTopic("topics")] = ()


LIST_PARTITION_REASSIGNMENTS: Final = Api(
    key=46,
    name="ListPartitionReassignments",
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=ListPartitionReassignmentsResponse,
)
