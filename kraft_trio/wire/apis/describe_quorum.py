"""DescribeQuorum: what the leader knows about voters and observers (KIP-595, KIP-836 timestamps, KIP-853 nodes).

According to KIP-853, the status shows the committed voters if they differ from the current ones.  Kafka's response has
no field for them.  Ours has a tagged field, which is sent only then; a reader that does not know it skips it.  Two
more tell the target voters of a reassignment, and what it is doing (KIP-642).  A tagged field of the request asks for
idempotent producers by their ids, as DescribeProducers (KIP-664) tells them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.endpoints import fields_of_listeners, listeners_of_fields
from kraft_trio.wire.apis.one_partition import (
    NO_PARTITION,
    NO_TOPIC,
    fields_of_answered_topic,
    fields_of_topic,
    topic_of_request,
    topic_of_response,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

MAX_PRODUCERS: Final = 8192
"""How many producers one answer describes."""
CLUSTER_METADATA: Final = "__cluster_metadata"
"""The topic of Kafka's own quorum, and so the only one that Kafka's tools ask about."""


@attrs.frozen
class DescribeQuorumRequest:
    topic: str
    partition: int = 0
    producer_ids: tuple[int, ...] = ()
    """Producers to be described, at most MAX_PRODUCERS of them."""


@attrs.frozen
class QuorumReplica:
    """One voter or observer.  The end offset is exclusive.  -1 means that a value is unknown or too new."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_timestamp_ms: int = -1
    last_caught_up_timestamp_ms: int = -1


@attrs.frozen
class QuorumNode:
    """The listeners of a voter, or of an observer that tells them when it fetches."""

    id: int
    endpoints: Endpoints


@attrs.frozen
class DescribedProducer:
    """An idempotent producer that the log remembers, as of its newest batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """Inclusive."""


@attrs.frozen
class DescribeQuorumResponse:
    """With `error`, which is about the whole request, all else is unset.  A follower sets `partition_error`."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic: str = NO_TOPIC
    partition: int = 0
    partition_error: ErrorCode = ErrorCode.none
    partition_error_message: str | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    """Exclusive, or -1 if it is unknown."""
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()
    nodes: tuple[QuorumNode, ...] = ()
    committed_voters: tuple[QuorumReplica, ...] = ()
    """The newest committed voter set while a newer one is uncommitted; otherwise, and below version 2, empty."""
    target_voters: tuple[QuorumReplica, ...] = ()
    """The voters that a reassignment leads to; without a reassignment, and below version 2, empty."""
    reassignment_status: str | None = None
    """What the reassignment is doing or waiting for."""
    producers: tuple[DescribedProducer, ...] = ()
    """Those that were asked for and that the leader's log remembers, committed or not."""

    @classmethod
    def described(
        cls,
        request: DescribeQuorumRequest,
        *,
        leader_id: int,
        leader_epoch: int,
        high_watermark: int,
        voters: tuple[QuorumReplica, ...],
        observers: tuple[QuorumReplica, ...],
        nodes: Iterable[Voter],
        committed_voters: tuple[QuorumReplica, ...] = (),
        target_voters: tuple[QuorumReplica, ...] = (),
    ) -> DescribeQuorumResponse:
        """The leader's answer to `request`."""
        return cls(
            topic=request.topic,
            partition=request.partition,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
            high_watermark=high_watermark,
            voters=voters,
            observers=observers,
            nodes=tuple(QuorumNode(voter.id, voter.endpoints) for voter in nodes),
            committed_voters=committed_voters,
            target_voters=target_voters,
        )

    @classmethod
    def refused(
        cls,
        request: DescribeQuorumRequest,
        error: ErrorCode,
        message: str | None = None,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> DescribeQuorumResponse:
        """An error for the partition, with the leader if it is known."""
        return cls(
            topic=request.topic,
            partition=request.partition,
            partition_error=error,
            partition_error_message=message,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )


def _fields_of_request(request: DescribeQuorumRequest, version: int) -> Fields:
    return {
        "topics": fields_of_topic(request.topic, {"partition_index": request.partition}),
        "producer_ids": request.producer_ids,
    }


def _request_of_fields(fields: Fields, version: int) -> DescribeQuorumRequest:
    topic, partition = topic_of_request(fields)
    index = partition.get("partition_index", NO_PARTITION)
    return DescribeQuorumRequest(topic, index, tuple(fields.get("producer_ids", ())))


def _fields_of_replica(replica: QuorumReplica) -> Fields:
    return {
        "replica_id": replica.key.id,
        "replica_directory_id": replica.key.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_timestamp_ms,
        "last_caught_up_timestamp": replica.last_caught_up_timestamp_ms,
    }


def _replica_of_fields(fields: Fields) -> QuorumReplica:
    return QuorumReplica(
        ReplicaKey(fields["replica_id"], fields.get("replica_directory_id", NO_DIRECTORY_ID)),
        fields["log_end_offset"],
        fields.get("last_fetch_timestamp", -1),
        fields.get("last_caught_up_timestamp", -1),
    )


def _fields_of_response(response: DescribeQuorumResponse, version: int) -> Fields:
    partition = {
        "partition_index": response.partition,
        "error_code": response.partition_error,
        "error_message": response.partition_error_message,
        "leader_id": response.leader_id,
        "leader_epoch": response.leader_epoch,
        "high_watermark": response.high_watermark,
        "current_voters": [_fields_of_replica(replica) for replica in response.voters],
        "observers": [_fields_of_replica(replica) for replica in response.observers],
    }
    return {
        "error_code": response.error,
        "error_message": response.error_message,
        "topics": fields_of_answered_topic(response.error, response.topic, partition),
        "nodes": [{"node_id": node.id, "listeners": fields_of_listeners(node.endpoints)} for node in response.nodes],
        "committed_voters": [_fields_of_replica(replica) for replica in response.committed_voters],
        "target_voters": [_fields_of_replica(replica) for replica in response.target_voters],
        "reassignment_status": response.reassignment_status,
        "producers": [attrs.asdict(producer) for producer in response.producers],
    }


def _response_of_fields(fields: Fields, version: int) -> DescribeQuorumResponse:
    topic, partition = topic_of_response(fields)
    if partition is None:
        return DescribeQuorumResponse(error=fields["error_code"], error_message=fields.get("error_message"))
    return DescribeQuorumResponse(
        error_message=fields.get("error_message"),
        topic=topic,
        partition=partition["partition_index"],
        partition_error=partition["error_code"],
        partition_error_message=partition.get("error_message"),
        leader_id=partition["leader_id"],
        leader_epoch=partition["leader_epoch"],
        high_watermark=partition["high_watermark"],
        voters=tuple(_replica_of_fields(replica) for replica in partition["current_voters"]),
        observers=tuple(_replica_of_fields(replica) for replica in partition["observers"]),
        nodes=tuple(
            QuorumNode(node["node_id"], listeners_of_fields(node["listeners"])) for node in fields.get("nodes", ())
        ),
        committed_voters=tuple(_replica_of_fields(replica) for replica in fields.get("committed_voters", ())),
        target_voters=tuple(_replica_of_fields(replica) for replica in fields.get("target_voters", ())),
        reassignment_status=fields.get("reassignment_status"),
        producers=tuple(DescribedProducer(**producer) for producer in fields.get("producers", ())),
    )


_SCHEMA: Final = """\
request
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
    producer_ids: [int64] 2+ tag 10000
response
    error_code: error_code
    error_message: string? 2+
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            error_code: error_code
            error_message: string? 2+
            leader_id: int32
            leader_epoch: int32
            high_watermark: int64
            current_voters: [ReplicaState]
                replica_id: int32
                replica_directory_id: uuid 2+
                log_end_offset: int64
                last_fetch_timestamp: int64 1+
                last_caught_up_timestamp: int64 1+
            observers: [ReplicaState]
                replica_id: int32
                replica_directory_id: uuid 2+
                log_end_offset: int64
                last_fetch_timestamp: int64 1+
                last_caught_up_timestamp: int64 1+
    nodes: [Node] 2+
        node_id: int32
        listeners: [Listener]
            name: string
            host: string
            port: uint16
    committed_voters: [ReplicaState] 2+ tag 10000
        replica_id: int32
        replica_directory_id: uuid 2+
        log_end_offset: int64
        last_fetch_timestamp: int64 1+
        last_caught_up_timestamp: int64 1+
    target_voters: [ReplicaState] 2+ tag 10001
        replica_id: int32
        replica_directory_id: uuid 2+
        log_end_offset: int64
        last_fetch_timestamp: int64 1+
        last_caught_up_timestamp: int64 1+
    reassignment_status: string? 2+ tag 10002 = null
    producers: [Producer] 2+ tag 10003
        producer_id: int64
        producer_epoch: int16
        last_sequence: int32
"""

DESCRIBE_QUORUM: Final = Api(
    key=55,
    name="DescribeQuorum",
    schema=_SCHEMA,
    min_version=0,
    max_version=2,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, message: DescribeQuorumResponse(error=error, error_message=message),
)
