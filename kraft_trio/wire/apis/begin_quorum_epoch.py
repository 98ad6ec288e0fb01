"""BeginQuorumEpoch: a new leader announces itself to the voters (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints
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
class BeginQuorumEpochRequest:
    """Tells replica `voter_id` who leads; -1 addresses any receiver.  Version 0 has no endpoints and no receiver."""

    cluster_id: str | None
    voter_id: int
    topic: str
    partition: int
    voter_directory_id: UUID
    """The directory id of the receiver, or zero if it is unknown."""
    leader_id: int
    leader_epoch: int
    leader_endpoints: Endpoints = Endpoints()


@attrs.frozen
class BeginQuorumEpochResponse(QuorumEpochResponse):
    """The leader that the receiver knows afterwards."""


def _fields_of_request(request: BeginQuorumEpochRequest, version: int) -> Fields:
    partition = {
        "partition_index": request.partition,
        "voter_directory_id": request.voter_directory_id,
        "leader_id": request.leader_id,
        "leader_epoch": request.leader_epoch,
    }
    return {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter_id,
        "topics": fields_of_topic(request.topic, partition),
        "leader_endpoints": fields_of_listeners(request.leader_endpoints),
    }


def _request_of_fields(fields: Fields, version: int) -> BeginQuorumEpochRequest:
    topic, partition = topic_of_request(fields)
    return BeginQuorumEpochRequest(
        cluster_id=fields["cluster_id"],
        voter_id=fields.get("voter_id", -1),
        topic=topic,
        partition=partition.get("partition_index", NO_PARTITION),
        voter_directory_id=partition.get("voter_directory_id", NO_DIRECTORY_ID),
        leader_id=partition.get("leader_id", -1),
        leader_epoch=partition.get("leader_epoch", -1),
        leader_endpoints=listeners_of_fields(fields.get("leader_endpoints", ())),
    )


_REQUEST_SCHEMA: Final = """\
request
    cluster_id: string?
    voter_id: int32 1+
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            voter_directory_id: uuid 1+
            leader_id: int32
            leader_epoch: int32
    leader_endpoints: [LeaderEndpoint] 1+
        name: string
        host: string
        port: uint16
"""

BEGIN_QUORUM_EPOCH: Final = Api(
    key=53,
    name="BeginQuorumEpoch",
    schema=_REQUEST_SCHEMA + quorum_epoch_response_schema(),
    min_version=0,
    max_version=1,
    flexible_version=1,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=fields_of_quorum_epoch_response,
    response_of_fields=lambda fields, _version: quorum_epoch_response_of_fields(BeginQuorumEpochResponse, fields),
    error_response=lambda error, _message: BeginQuorumEpochResponse(error=error),
)
