"""CreateTopics: new topics, with or without an assignment of their partitions (KIP-4).

Older versions than 2 are not served, as Kafka 4.0 and newer do not serve them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final
from uuid import UUID

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int8, Int16, Int32, Place, String, Uuid

BY_DEFAULT: Final = -1
UNKNOWN: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)


@attrs.frozen
class NewTopic:
    """`assignments` are pairs of a partition and the ids of its replicas, and `configs` of a key and its value.

    `partition_count` and `replication_factor` are BY_DEFAULT if there are assignments.
    """

    name: String
    partition_count: Int32 = BY_DEFAULT
    replication_factor: Int16 = BY_DEFAULT
    assignments: tuple[tuple[Int32, Annotated[tuple[Int32, ...], "broker_ids"]], ...] = ()
    configs: tuple[tuple[Annotated[String, "name"], Annotated[String | None, "value"]], ...] = ()


@attrs.frozen
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


@attrs.frozen
class TopicConfig:
    """`source` says where the value comes from, as in DescribeConfigs."""

    name: String
    value: String | None
    is_read_only: Bool = False
    source: Int8 = -1
    is_sensitive: Bool = False


@attrs.frozen
class CreationResult:
    """The outcome for one topic.  The fields after `error_message` are about a topic that has been created."""

    name: String
    error: Error = ErrorCode.none
    error_message: String | None = None
    topic_id: Annotated[Uuid, Place(since=7, after="name")] = NO_TOPIC_ID
    partition_count: Annotated[Int32, Place(since=5)] = UNKNOWN
    replication_factor: Annotated[Int16, Place(since=5)] = UNKNOWN
    configs: Annotated[tuple[TopicConfig, ...] | None, Place(since=5)] = ()
    config_error: Annotated[Int16, "topic_config_error_code", Place(since=5, tag=0)] = 0
    """The error code that says why there are no `configs`."""


@attrs.frozen
class CreateTopicsResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    results: Annotated[tuple[CreationResult, ...], "topics"] = ()


CREATE_TOPICS: Final = Api(
    key=19,
    name="CreateTopics",
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    min_version=2,
    max_version=7,
    flexible_version=5,
    error_response=lambda error, message: CreateTopicsResponse((CreationResult("", error, message),)),
)
