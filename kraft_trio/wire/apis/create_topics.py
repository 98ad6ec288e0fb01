"""CreateTopics: new topics, with or without an assignment of their partitions (KIP-4).

Older versions than 2 are not served, as Kafka 4.0 and newer do not serve them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

BY_DEFAULT: Final = -1
UNKNOWN: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)


@attrs.frozen
class NewTopic:
    """`assignments` are pairs of a partition and the ids of its replicas, and `configs` of a key and its value.

    `partition_count` and `replication_factor` are BY_DEFAULT if there are assignments.
    """

    name: str
    partition_count: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@attrs.frozen
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


@attrs.frozen
class TopicConfig:
    """`source` says where the value comes from, as in DescribeConfigs."""

    name: str
    value: str | None
    is_read_only: bool = False
    source: int = -1
    is_sensitive: bool = False


@attrs.frozen
class CreationResult:
    """The outcome for one topic.  The fields after `error_message` are about a topic that has been created."""

    name: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_id: UUID = NO_TOPIC_ID
    partition_count: int = UNKNOWN
    replication_factor: int = UNKNOWN
    configs: tuple[TopicConfig, ...] | None = ()
    config_error: int = 0
    """The error code that says why there are no `configs`."""


@attrs.frozen
class CreateTopicsResponse:
    results: tuple[CreationResult, ...] = ()


def _fields_of_request(request: CreateTopicsRequest, version: int) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "num_partitions": topic.partition_count,
                "replication_factor": topic.replication_factor,
                "assignments": [
                    {"partition_index": partition, "broker_ids": list(ids)} for partition, ids in topic.assignments
                ],
                "configs": [{"name": name, "value": value} for name, value in topic.configs],
            }
            for topic in request.topics
        ],
        "timeout": request.timeout_ms,
        "validate_only": request.validate_only,
    }


def _request_of_fields(fields: Fields, version: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        tuple(
            NewTopic(
                topic["name"],
                topic["num_partitions"],
                topic["replication_factor"],
                tuple((one["partition_index"], tuple(one["broker_ids"])) for one in topic["assignments"]),
                tuple((config["name"], config["value"]) for config in topic["configs"]),
            )
            for topic in fields["topics"]
        ),
        fields["timeout"],
        fields["validate_only"],
    )


def _fields_of_response(response: CreateTopicsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": result.name,
                "topic_id": result.topic_id,
                "error_code": result.error,
                "error_message": result.error_message,
                "num_partitions": result.partition_count,
                "replication_factor": result.replication_factor,
                "configs": None if result.configs is None else [_fields_of_config(one) for one in result.configs],
                "topic_config_error_code": result.config_error,
            }
            for result in response.results
        ],
    }


def _fields_of_config(config: TopicConfig) -> Fields:
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.is_read_only,
        "config_source": config.source,
        "is_sensitive": config.is_sensitive,
    }


def _response_of_fields(fields: Fields, version: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(tuple(_result_of_fields(topic) for topic in fields["topics"]))


def _result_of_fields(topic: Fields) -> CreationResult:
    configs = topic.get("configs", ())
    return CreationResult(
        topic["name"],
        topic["error_code"],
        topic["error_message"],
        topic.get("topic_id", NO_TOPIC_ID),
        topic.get("num_partitions", UNKNOWN),
        topic.get("replication_factor", UNKNOWN),
        None
        if configs is None
        else tuple(
            TopicConfig(one["name"], one["value"], one["read_only"], one["config_source"], one["is_sensitive"])
            for one in configs
        ),
        topic.get("topic_config_error_code", 0),
    )


_SCHEMA: Final = """\
request
    topics: [CreatableTopic]
        name: string
        num_partitions: int32
        replication_factor: int16
        assignments: [CreatableReplicaAssignment]
            partition_index: int32
            broker_ids: [int32]
        configs: [CreatableTopicConfig]
            name: string
            value: string?
    timeout: int32
    validate_only: bool
response
    throttle_time: int32
    topics: [CreatableTopicResult]
        name: string
        topic_id: uuid 7+
        error_code: error_code
        error_message: string?
        num_partitions: int32 5+
        replication_factor: int16 5+
        configs: [CreatableTopicConfigs]? 5+
            name: string
            value: string?
            read_only: bool
            config_source: int8
            is_sensitive: bool
        topic_config_error_code: int16 5+ tag 0
"""

CREATE_TOPICS: Final = Api(
    key=19,
    name="CreateTopics",
    schema=_SCHEMA,
    min_version=2,
    max_version=7,
    flexible_version=5,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, message: CreateTopicsResponse((CreationResult("", error, message),)),
)
