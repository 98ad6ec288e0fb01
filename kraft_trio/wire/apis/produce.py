"""Produce: a client appends batches (docs/explanation/decisions.md#one-topic-one-partition).

A topic is named up to version 12 and has an id from version 13 on (KIP-516); the other field is then empty.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.wire.apis.endpoints import NodeEndpoints
from kraft_trio.wire.apis.topics import NO_TOPIC_ID
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import (
    SHARED,
    VARIES,
    ByTopic,
    Error,
    Int16,
    Int32,
    Int64,
    Nest,
    Place,
    Records,
    String,
    Uuid,
)

MAX_MESSAGE_CHARACTERS: Final = 500
"""Of an error message.  It may quote what a client sent, and old versions have room for 32,767 bytes."""

_RecordError: TypeAlias = tuple[Int32, Annotated[String | None, "batch_index_error_message"]]
_LEADER: Final = Nest("current_leader", Place(since=10, tag=0))


@attrs.frozen
class ProducePartition:
    """The batches for one partition in the form in which they are stored, or None if the client sent null."""

    topic_name: Annotated[String, "name", Place(until=12), SHARED]
    topic_id: Annotated[Uuid, Place(since=13), SHARED]
    partition: Int32
    records: Annotated[Records | None, VARIES]


@attrs.frozen
class ProduceRequest:
    """`acks`: -1 asks for an answer after the commit, 1 after the leader's append, 0 for no answer."""

    acks: Annotated[Int16, Place(after="transactional_id")]
    timeout_ms: Annotated[Int32, Place(after="acks")]
    partitions: Annotated[
        tuple[ProducePartition, ...], ByTopic("topic_data", "partition_data"), Place(after="timeout_ms")
    ]
    transactional_id: String | None = None


@attrs.frozen
class ProducePartitionResponse:
    """The outcome for one partition.  Unknown values are -1."""

    topic_name: Annotated[String, "name", Place(until=12), SHARED] = ""
    topic_id: Annotated[Uuid, Place(since=13), SHARED] = NO_TOPIC_ID
    partition: Int32 = 0
    error: Error = ErrorCode.none
    base_offset: Annotated[Int64, VARIES] = -1
    """The offset of the first record.  Within a node, an error has it too if the batch is in the leader's log.

    OUT_OF_ORDER_SEQUENCE_NUMBER has that of another batch with the same sequences, also over the network."""
    log_append_time_ms: Int64 = -1
    """For sequences that the log had before: the time of their producer's newest batch.  As in Kafka, otherwise -1."""
    log_start_offset: Annotated[Int64, Place(since=5), VARIES] = -1
    record_errors: ClassVar[Annotated[tuple[_RecordError, ...], Place(since=8)]] = ()
    error_message: Annotated[String | None, Place(since=8)] = None
    leader_id: Annotated[Int32, _LEADER] = -1
    leader_epoch: Annotated[Int32, _LEADER] = -1

    @classmethod
    def failed(cls, error: ErrorCode, message: str | None = None) -> ProducePartitionResponse:
        """The answer if nothing was appended, or if that is unknown.  The caller fills in the topic."""
        return cls(error=error, error_message=None if message is None else message[:MAX_MESSAGE_CHARACTERS])

    def about(
        self, partition: ProducePartition, leader_id: int = -1, leader_epoch: int = -1
    ) -> ProducePartitionResponse:
        """The same outcome with the request's names of the partition, and perhaps the leader."""
        return ProducePartitionResponse(
            partition.topic_name,
            partition.topic_id,
            partition.partition,
            self.error,
            self.base_offset if self.error in (ErrorCode.none, ErrorCode.out_of_order_sequence_number) else -1,
            self.log_append_time_ms,
            self.log_start_offset,
            self.error_message,
            leader_id,
            leader_epoch,
        )


@attrs.frozen
class ProduceResponse:
    """`node_endpoints` has the endpoints of the leaders that the partitions name (KIP-951, from version 10 on)."""

    partitions: Annotated[tuple[ProducePartitionResponse, ...], ByTopic("responses", "partition_responses")] = ()
    throttle_time_ms: ClassVar[Int32] = 0
    node_endpoints: Annotated[NodeEndpoints, Place(since=10, tag=0)] = ()


PRODUCE: Final = Api(
    key=0,
    name="Produce",
    request=ProduceRequest,
    response=ProduceResponse,
    min_version=3,
    max_version=13,
    flexible_version=9,
    error_response=lambda _error, _message: ProduceResponse(),
    # librdkafka compresses only for brokers that name version 0, even if it then sends a newer one (KAFKA-18659).
    advertised_min_version=0,
)
