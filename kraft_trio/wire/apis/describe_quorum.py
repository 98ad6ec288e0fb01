"""DescribeQuorum: what the leader knows about voters and observers (KIP-595, KIP-836 timestamps, KIP-853 nodes).

According to KIP-853, the status shows the committed voters if they differ from the current ones.  Kafka's response has
no field for them.  Ours has a tagged field, which is sent only then; a reader that does not know it skips it.  Two
more tell the target voters of a reassignment, and what it is doing (KIP-642).  A tagged field of the request asks for
idempotent producers by their ids, as DescribeProducers (KIP-664) tells them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import attrs

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.apis.one_partition import NO_TOPIC, AnsweredTopicName, OfAnsweredPartition, OfPartition, TopicName
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Error, Int16, Int32, Int64, Parts, Place, String, Uuid

MAX_PRODUCERS: Final = 8192
"""How many producers one answer describes."""
CLUSTER_METADATA: Final = "__cluster_metadata"
"""The topic of Kafka's own quorum, and so the only one that Kafka's tools ask about."""


@attrs.frozen
class DescribeQuorumRequest:
    topic: TopicName
    partition: OfPartition[Int32] = 0
    producer_ids: Annotated[tuple[Int64, ...], Place(since=2, tag=10000)] = ()
    """Producers to be described, at most MAX_PRODUCERS of them."""


@attrs.frozen
class QuorumReplica:
    """One voter or observer.  The end offset is exclusive.  -1 means that a value is unknown or too new."""

    key: Annotated[ReplicaKey, Parts(id=Int32, directory_id=Annotated[Uuid, Place(since=2)]), INLINE]
    log_end_offset: Int64
    last_fetch_timestamp_ms: Annotated[Int64, Place(since=1)] = -1
    last_caught_up_timestamp_ms: Annotated[Int64, Place(since=1)] = -1


@attrs.frozen
class QuorumNode:
    """The listeners of a voter, or of an observer that tells them when it fetches."""

    id: Int32
    endpoints: Annotated[Listeners, "listeners"]


@attrs.frozen
class DescribedProducer:
    """An idempotent producer that the log remembers, as of its newest batch."""

    producer_id: Int64
    producer_epoch: Int16
    last_sequence: Int32
    """Inclusive."""


@attrs.frozen
class DescribeQuorumResponse:
    """With `error`, which is about the whole request, all else is unset.  A follower sets `partition_error`."""

    error: Error = ErrorCode.none
    error_message: Annotated[String | None, Place(since=2)] = None
    topic: AnsweredTopicName = NO_TOPIC
    partition: OfAnsweredPartition[Int32] = 0
    partition_error: OfAnsweredPartition[Error] = ErrorCode.none
    partition_error_message: OfAnsweredPartition[Annotated[String | None, "error_message", Place(since=2)]] = None
    leader_id: OfAnsweredPartition[Int32] = -1
    leader_epoch: OfAnsweredPartition[Int32] = -1
    high_watermark: OfAnsweredPartition[Int64] = -1
    """Exclusive, or -1 if it is unknown."""
    voters: OfAnsweredPartition[Annotated[tuple[QuorumReplica, ...], "current_voters"]] = ()
    observers: OfAnsweredPartition[tuple[QuorumReplica, ...]] = ()
    nodes: Annotated[tuple[QuorumNode, ...], Place(since=2)] = ()
    committed_voters: Annotated[tuple[QuorumReplica, ...], Place(since=2, tag=10000)] = ()
    """The newest committed voter set while a newer one is uncommitted; otherwise, and below version 2, empty."""
    target_voters: Annotated[tuple[QuorumReplica, ...], Place(since=2, tag=10001)] = ()
    """The voters that a reassignment leads to; without a reassignment, and below version 2, empty."""
    reassignment_status: Annotated[String | None, Place(since=2, tag=10002)] = None
    """What the reassignment is doing or waiting for."""
    producers: Annotated[tuple[DescribedProducer, ...], Place(since=2, tag=10003)] = ()
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


DESCRIBE_QUORUM: Final = Api(
    key=55,
    name="DescribeQuorum",
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    min_version=0,
    max_version=2,
    flexible_version=0,
    error_response=lambda error, message: DescribeQuorumResponse(error=error, error_message=message),
)
