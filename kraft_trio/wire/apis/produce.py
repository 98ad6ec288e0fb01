"""Produce: a client appends batches (docs/explanation/decisions.md#one-topic-one-partition).

A topic is named up to version 12 and has an id from version 13 on (KIP-516); the other field is then empty.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.endpoints import fields_of_node_endpoints, node_endpoints_of_fields
from kraft_trio.wire.apis.topics import NO_TOPIC_ID, by_topic
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

MAX_MESSAGE_CHARACTERS: Final = 500
"""Of an error message.  It may quote what a client sent, and old versions have room for 32,767 bytes."""


@attrs.frozen
class ProducePartition:
    """The batches for one partition in the form in which they are stored, or None if the client sent null."""

    topic_name: str
    topic_id: UUID
    partition: int
    records: bytes | None


@attrs.frozen
class ProduceRequest:
    """`acks`: -1 asks for an answer after the commit, 1 after the leader's append, 0 for no answer."""

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None


@attrs.frozen
class ProducePartitionResponse:
    """The outcome for one partition.  Unknown values are -1."""

    topic_name: str = ""
    topic_id: UUID = NO_TOPIC_ID
    partition: int = 0
    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    """The offset of the first record.  Within a node, an error has it too if the batch is in the leader's log.

    OUT_OF_ORDER_SEQUENCE_NUMBER has that of another batch with the same sequences, also over the network."""
    log_append_time_ms: int = -1
    """For sequences that the log had before: the time of their producer's newest batch.  As in Kafka, otherwise -1."""
    log_start_offset: int = -1
    error_message: str | None = None
    leader_id: int = -1
    leader_epoch: int = -1

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

    partitions: tuple[ProducePartitionResponse, ...] = ()
    node_endpoints: tuple[tuple[int, Endpoint], ...] = ()


def _fields_of_request(request: ProduceRequest, version: int) -> Fields:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout": request.timeout_ms,
        "topic_data": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_data": [{"index": member.partition, "records": member.records} for member in members],
            }
            for name, topic_id, members in by_topic(request.partitions)
        ],
    }


def _request_of_fields(fields: Fields, version: int) -> ProduceRequest:
    partitions = [
        ProducePartition(
            topic.get("name", ""), topic.get("topic_id", NO_TOPIC_ID), partition["index"], partition["records"]
        )
        for topic in fields["topic_data"]
        for partition in topic["partition_data"]
    ]
    return ProduceRequest(fields["acks"], fields["timeout"], tuple(partitions), fields["transactional_id"])


def _fields_of_answer(answer: ProducePartitionResponse) -> Fields:
    return {
        "index": answer.partition,
        "error_code": answer.error,
        "base_offset": answer.base_offset,
        "log_append_time": answer.log_append_time_ms,
        "log_start_offset": answer.log_start_offset,
        "record_errors": (),
        "error_message": answer.error_message,
        "current_leader": {"leader_id": answer.leader_id, "leader_epoch": answer.leader_epoch},
    }


def _fields_of_response(response: ProduceResponse, version: int) -> Fields:
    return {
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [_fields_of_answer(answer) for answer in answers],
            }
            for name, topic_id, answers in by_topic(response.partitions)
        ],
        "throttle_time": 0,
        "node_endpoints": fields_of_node_endpoints(response.node_endpoints),
    }


_UNKNOWN_LEADER: Final[Fields] = {"leader_id": -1, "leader_epoch": -1}


def _answer_of_fields(topic: Fields, fields: Fields) -> ProducePartitionResponse:
    leader = fields.get("current_leader", _UNKNOWN_LEADER)
    return ProducePartitionResponse(
        topic.get("name", ""),
        topic.get("topic_id", NO_TOPIC_ID),
        fields["index"],
        fields["error_code"],
        fields["base_offset"],
        fields["log_append_time"],
        fields.get("log_start_offset", -1),
        fields.get("error_message"),
        leader["leader_id"],
        leader["leader_epoch"],
    )


def _response_of_fields(fields: Fields, version: int) -> ProduceResponse:
    partitions = [
        _answer_of_fields(topic, answer) for topic in fields["responses"] for answer in topic["partition_responses"]
    ]
    return ProduceResponse(tuple(partitions), node_endpoints_of_fields(fields))


_SCHEMA: Final = """\
request
    transactional_id: string?
    acks: int16
    timeout: int32
    topic_data: [TopicProduceData]
        topic_id: uuid 13+
        name: string 3-12
        partition_data: [PartitionProduceData]
            index: int32
            records: records?
response
    responses: [TopicProduceResponse]
        topic_id: uuid 13+
        name: string 3-12
        partition_responses: [PartitionProduceResponse]
            index: int32
            error_code: error_code
            base_offset: int64
            log_append_time: int64
            log_start_offset: int64 5+
            record_errors: [BatchIndexAndErrorMessage] 8+
                batch_index: int32
                batch_index_error_message: string?
            error_message: string? 8+
            current_leader: LeaderIdAndEpoch 10+ tag 0
                leader_id: int32 = -1
                leader_epoch: int32 = -1
    throttle_time: int32
    node_endpoints: [NodeEndpoint] 10+ tag 0
        node_id: int32
        host: string
        port: int32
        rack: string?
"""

PRODUCE: Final = Api(
    key=0,
    name="Produce",
    schema=_SCHEMA,
    min_version=3,
    max_version=13,
    flexible_version=9,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda _error, _message: ProduceResponse(),
    # librdkafka compresses only for brokers that name version 0, even if it then sends a newer one (KAFKA-18659).
    advertised_min_version=0,
)
