"""EndQuorumEpoch: a leader that resigns tells the voters and names its successors, best first (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.wire.apis.endpoints import fields_of_listeners, listeners_of_fields
from kraft_trio.wire.apis.one_partition import NO_PARTITION, fields_of_topic, topic_of_request
from kraft_trio.wire.apis.quorum_epoch_response import (
    QuorumEpochResponse,
    fields_of_quorum_epoch_response,
    quorum_epoch_response_of_fields,
    quorum_epoch_response_schema,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema import Fields


@attrs.frozen
class EndQuorumEpochRequest:
    """Version 0 carries `preferred_successors`, version 1 `preferred_candidates`; the other is read as ()."""

    cluster_id: str | None
    topic: str
    partition: int
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...] = ()
    preferred_candidates: tuple[ReplicaKey, ...] = ()
    leader_endpoints: Endpoints = Endpoints()


@attrs.frozen
class EndQuorumEpochResponse(QuorumEpochResponse):
    """The leader that the receiver knows afterwards."""


def _fields_of_request(request: EndQuorumEpochRequest, version: int) -> Fields:
    partition = {
        "partition_index": request.partition,
        "leader_id": request.leader_id,
        "leader_epoch": request.leader_epoch,
        "preferred_successors": request.preferred_successors,
        "preferred_candidates": [
            {"candidate_id": key.id, "candidate_directory_id": key.directory_id} for key in request.preferred_candidates
        ],
    }
    return {
        "cluster_id": request.cluster_id,
        "topics": fields_of_topic(request.topic, partition),
        "leader_endpoints": fields_of_listeners(request.leader_endpoints),
    }


def _request_of_fields(fields: Fields, version: int) -> EndQuorumEpochRequest:
    topic, partition = topic_of_request(fields)
    return EndQuorumEpochRequest(
        cluster_id=fields["cluster_id"],
        topic=topic,
        partition=partition.get("partition_index", NO_PARTITION),
        leader_id=partition.get("leader_id", -1),
        leader_epoch=partition.get("leader_epoch", -1),
        preferred_successors=tuple(partition.get("preferred_successors", ())),
        preferred_candidates=tuple(
            ReplicaKey(candidate["candidate_id"], candidate["candidate_directory_id"])
            for candidate in partition.get("preferred_candidates", ())
        ),
        leader_endpoints=listeners_of_fields(fields.get("leader_endpoints", ())),
    )


_REQUEST_SCHEMA: Final = """\
request
    cluster_id: string?
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            leader_id: int32
            leader_epoch: int32
            preferred_candidates: [ReplicaInfo] 1+
                candidate_id: int32
                candidate_directory_id: uuid
            preferred_successors: [int32] 0
    leader_endpoints: [LeaderEndpoint] 1+
        name: string
        host: string
        port: uint16
"""

END_QUORUM_EPOCH: Final = Api(
    key=54,
    name="EndQuorumEpoch",
    schema=_REQUEST_SCHEMA + quorum_epoch_response_schema(),
    min_version=0,
    max_version=1,
    flexible_version=1,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=fields_of_quorum_epoch_response,
    response_of_fields=lambda fields, _version: quorum_epoch_response_of_fields(EndQuorumEpochResponse, fields),
    error_response=lambda error, _message: EndQuorumEpochResponse(error=error),
)
