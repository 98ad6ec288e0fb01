"""The response of BeginQuorumEpoch and EndQuorumEpoch, and most of the one of Vote (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Final, TypeVar

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.endpoints import fields_of_leader_endpoint, leader_endpoint_of_fields
from kraft_trio.wire.apis.one_partition import NO_TOPIC, fields_of_answered_topic, topic_of_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class QuorumEpochResponse:
    """With `error`, which is about the whole request, all else is unset.  `leader_id` is -1 if no leader is known."""

    error: ErrorCode = ErrorCode.none
    partition_error: ErrorCode = ErrorCode.none
    leader_id: int = -1
    leader_epoch: int = -1
    leader_endpoint: Endpoint | None = None
    topic: str = NO_TOPIC
    partition: int = 0


AnyQuorumEpochResponse = TypeVar("AnyQuorumEpochResponse", bound=QuorumEpochResponse)

_SCHEMA: Final = """\
response
    error_code: error_code
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            error_code: error_code
            leader_id: int32
            leader_epoch: int32
{more}\
    node_endpoints: [NodeEndpoint] 1+ tag 0
        node_id: int32
        host: string
        port: uint16
"""


def quorum_epoch_response_schema(*more: str) -> str:
    """`more` are the lines of further fields of the partition, without indentation."""
    return _SCHEMA.format(more="".join(f"            {line}\n" for line in more))


def fields_of_quorum_epoch_response(response: QuorumEpochResponse, version: int, **more: object) -> Fields:
    """`more` are further fields of the partition."""
    partition = {
        "partition_index": response.partition,
        "error_code": response.partition_error,
        "leader_id": response.leader_id,
        "leader_epoch": response.leader_epoch,
        **more,
    }
    return {
        "error_code": response.error,
        "topics": fields_of_answered_topic(response.error, response.topic, partition),
        "node_endpoints": fields_of_leader_endpoint(response.leader_id, response.leader_endpoint),
    }


def quorum_epoch_response_of_fields(
    response_type: type[AnyQuorumEpochResponse], fields: Fields, *more: str
) -> AnyQuorumEpochResponse:
    """`more` are the names of further fields of the partition, which the class has as well."""
    topic, partition = topic_of_response(fields)
    if partition is None:
        return response_type(error=fields["error_code"])
    return response_type(
        partition_error=partition["error_code"],
        leader_id=partition["leader_id"],
        leader_epoch=partition["leader_epoch"],
        leader_endpoint=leader_endpoint_of_fields(partition["leader_id"], fields),
        topic=topic,
        partition=partition["partition_index"],
        **{name: partition[name] for name in more},
    )
