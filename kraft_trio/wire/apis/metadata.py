"""Metadata: the brokers, the topics and the leaders of their partitions."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

NO_TOPIC_ID: Final = UUID(int=0)

OPERATIONS_NOT_TOLD: Final = -(2**31)
"""The value of the authorized-operations fields if the client did not ask for them."""


@attrs.frozen
class MetadataTopic:
    """A requested topic: by name, or, from version 10 on, by id with None for the name."""

    name: str | None
    topic_id: UUID = NO_TOPIC_ID


@attrs.frozen
class MetadataRequest:
    """None for `topics` asks for all topics, () for no topic.  Version 0 cannot ask for no topic."""

    topics: tuple[MetadataTopic, ...] | None = None
    allow_auto_topic_creation: bool = False


@attrs.frozen
class Broker:
    id: int
    endpoint: Endpoint
    rack: str | None = None


@attrs.frozen
class PartitionMetadata:
    """`leader_id` and `leader_epoch` are -1 if they are unknown."""

    partition: int
    error: ErrorCode = ErrorCode.none
    leader_id: int = -1
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@attrs.frozen
class TopicMetadata:
    name: str | None
    topic_id: UUID = NO_TOPIC_ID
    error: ErrorCode = ErrorCode.none
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()


@attrs.frozen
class MetadataResponse:
    brokers: tuple[Broker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[TopicMetadata, ...] = ()
    error: ErrorCode = ErrorCode.none
    """An error of the whole request.  Versions below 13 have no field for it."""


def _fields_of_request(request: MetadataRequest, version: int) -> Fields:
    topics = None
    if request.topics is not None:
        topics = [
            {"name": topic.name if version >= 10 else topic.name or "", "topic_id": topic.topic_id}
            for topic in request.topics
        ]
    return {
        "topics": [] if topics is None and version == 0 else topics,
        "allow_auto_topic_creation": request.allow_auto_topic_creation,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def _request_of_fields(fields: Fields, version: int) -> MetadataRequest:
    topics = fields["topics"]
    if version == 0 and not topics:
        topics = None
    return MetadataRequest(
        topics=None
        if topics is None
        else tuple(MetadataTopic(topic["name"], topic.get("topic_id", NO_TOPIC_ID)) for topic in topics),
        allow_auto_topic_creation=fields.get("allow_auto_topic_creation", True),
    )


def _fields_of_partition(partition: PartitionMetadata) -> Fields:
    return {
        "error_code": partition.error,
        "partition_index": partition.partition,
        "leader_id": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync_replicas,
        "offline_replicas": partition.offline_replicas,
    }


def _fields_of_response(response: MetadataResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "brokers": [
            {"node_id": broker.id, "host": broker.endpoint.host, "port": broker.endpoint.port, "rack": broker.rack}
            for broker in response.brokers
        ],
        "cluster_id": response.cluster_id,
        "controller_id": response.controller_id,
        "topics": [
            {
                "error_code": topic.error,
                "name": topic.name if version >= 12 else topic.name or "",
                "topic_id": topic.topic_id,
                "is_internal": topic.is_internal,
                "partitions": [_fields_of_partition(partition) for partition in topic.partitions],
                "topic_authorized_operations": OPERATIONS_NOT_TOLD,
            }
            for topic in response.topics
        ],
        "cluster_authorized_operations": OPERATIONS_NOT_TOLD,
        "error_code": response.error,
    }


def _partition_of_fields(fields: Fields) -> PartitionMetadata:
    return PartitionMetadata(
        partition=fields["partition_index"],
        error=fields["error_code"],
        leader_id=fields["leader_id"],
        leader_epoch=fields.get("leader_epoch", -1),
        replicas=tuple(fields["replica_nodes"]),
        in_sync_replicas=tuple(fields["isr_nodes"]),
        offline_replicas=tuple(fields.get("offline_replicas", ())),
    )


def _response_of_fields(fields: Fields, version: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            Broker(broker["node_id"], Endpoint(broker["host"], broker["port"]), broker.get("rack"))
            for broker in fields["brokers"]
        ),
        cluster_id=fields.get("cluster_id"),
        controller_id=fields.get("controller_id", -1),
        topics=tuple(
            TopicMetadata(
                name=topic["name"],
                topic_id=topic.get("topic_id", NO_TOPIC_ID),
                error=topic["error_code"],
                is_internal=topic.get("is_internal", False),
                partitions=tuple(_partition_of_fields(partition) for partition in topic["partitions"]),
            )
            for topic in fields["topics"]
        ),
        error=fields.get("error_code", ErrorCode.none),
    )


_SCHEMA: Final = """\
request
    topics: [MetadataRequestTopic]?1+
        topic_id: uuid 10+
        name: string?10+
    allow_auto_topic_creation: bool 4+
    include_cluster_authorized_operations: bool 8-10
    include_topic_authorized_operations: bool 8+
response
    throttle_time: int32 3+
    brokers: [MetadataResponseBroker]
        node_id: int32
        host: string
        port: int32
        rack: string? 1+
    cluster_id: string? 2+
    controller_id: int32 1+
    topics: [MetadataResponseTopic]
        error_code: error_code
        name: string?12+
        topic_id: uuid 10+
        is_internal: bool 1+
        partitions: [MetadataResponsePartition]
            error_code: error_code
            partition_index: int32
            leader_id: int32
            leader_epoch: int32 7+
            replica_nodes: [int32]
            isr_nodes: [int32]
            offline_replicas: [int32] 5+
        topic_authorized_operations: int32 8+
    error_code: error_code 13+
    cluster_authorized_operations: int32 8-10
"""

METADATA: Final = Api(
    key=3,
    name="Metadata",
    schema=_SCHEMA,
    min_version=0,
    max_version=13,
    flexible_version=9,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: MetadataResponse(error=error),
)
