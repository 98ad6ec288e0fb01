"""Metadata: the brokers, the topics and the leaders of their partitions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Bool, Error, Int32, Parts, Place, String, Uuid, Via

NO_TOPIC_ID: Final = UUID(int=0)

OPERATIONS_NOT_TOLD: Final = -(2**31)
"""The value of the authorized-operations fields if the client did not ask for them."""

BrokerAddress: TypeAlias = Annotated[Endpoint, Parts(host=String, port=Int32), INLINE]
_EmptyName: TypeAlias = Annotated[str | None, Via(String, write="{} or ''"), "name"]
"""Of versions that have no null for a name."""


@attrs.frozen
class MetadataTopic:
    """A requested topic: by name, or, from version 10 on, by id with None for the name."""

    name: Annotated[String | None, Place(since=10, after="topic_id")]
    old_name: ClassVar[Annotated[_EmptyName, Place(until=9, of="name")]]
    topic_id: Annotated[Uuid, Place(since=10)] = NO_TOPIC_ID


_Topics: TypeAlias = tuple[MetadataTopic, ...]
_NoneForAll: TypeAlias = Annotated[_Topics | None, Via(_Topics, read="{} or None", write="{} or ()"), "topics"]


@attrs.frozen
class MetadataRequest:
    """None for `topics` asks for all topics, () for no topic.  Version 0 cannot ask for no topic."""

    topics: Annotated[_Topics | None, Place(since=1)] = None
    topics_of_version_0: ClassVar[Annotated[_NoneForAll, Place(until=0, of="topics")]]
    allow_auto_topic_creation: Annotated[Bool, Place(since=4, absent=True)] = False
    include_cluster_authorized_operations: ClassVar[Annotated[Bool, Place(since=8, until=10)]] = False
    include_topic_authorized_operations: ClassVar[Annotated[Bool, Place(since=8)]] = False


@attrs.frozen
class Broker:
    id: Int32
    endpoint: BrokerAddress
    rack: Annotated[String | None, Place(since=1)] = None


@attrs.frozen
class PartitionMetadata:
    """`leader_id` and `leader_epoch` are -1 if they are unknown."""

    partition: Annotated[Int32, Place(after="error")]
    error: Error = ErrorCode.none
    leader_id: Int32 = -1
    leader_epoch: Annotated[Int32, Place(since=7)] = -1
    replicas: Annotated[tuple[Int32, ...], "replica_nodes"] = ()
    in_sync_replicas: Annotated[tuple[Int32, ...], "isr_nodes"] = ()
    offline_replicas: Annotated[tuple[Int32, ...], Place(since=5)] = ()


@attrs.frozen
class TopicMetadata:
    name: Annotated[String | None, Place(since=12, after="error")]
    old_name: ClassVar[Annotated[_EmptyName, Place(until=11, of="name", after="error")]]
    topic_id: Annotated[Uuid, Place(since=10, after="name")] = NO_TOPIC_ID
    error: Error = ErrorCode.none
    is_internal: Annotated[Bool, Place(since=1)] = False
    partitions: tuple[PartitionMetadata, ...] = ()
    authorized_operations: ClassVar[Annotated[Int32, Place(since=8)]] = OPERATIONS_NOT_TOLD


@attrs.frozen
class MetadataResponse:
    throttle_time_ms: ClassVar[Annotated[Int32, Place(since=3)]] = 0
    brokers: tuple[Broker, ...] = ()
    cluster_id: Annotated[String | None, Place(since=2)] = None
    controller_id: Annotated[Int32, Place(since=1)] = -1
    topics: tuple[TopicMetadata, ...] = ()
    error: Annotated[Error, Place(since=13)] = ErrorCode.none
    """An error of the whole request.  Versions below 13 have no field for it."""
    cluster_authorized_operations: ClassVar[Annotated[Int32, Place(since=8, until=10)]] = OPERATIONS_NOT_TOLD


METADATA: Final = Api(
    key=3,
    name="Metadata",
    request=MetadataRequest,
    response=MetadataResponse,
    min_version=0,
    max_version=13,
    flexible_version=9,
    error_response=lambda error, _message: MetadataResponse(error=error),
)
