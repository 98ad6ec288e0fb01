"""Vote: a candidate, or with `pre_vote` a replica that may become one, asks for a vote (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, ReplicaKey
from kraft_trio.wire.apis.endpoints import fields_of_leader_endpoint, leader_endpoint_of_fields
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


@attrs.frozen
class VoteRequest:
    """Asks replica `voter_id` to vote for `replica`; -1 addresses any receiver."""

    cluster_id: str | None
    voter_id: int
    topic: str
    partition: int
    replica: ReplicaKey
    replica_epoch: int
    """The epoch of the campaign, or the current epoch in a pre-vote."""
    voter_directory_id: UUID
    """The directory id of the receiver, or zero if it is unknown."""
    last_offset: int
    """The exclusive end of the candidate's log."""
    last_offset_epoch: int
    pre_vote: bool = False


@attrs.frozen
class VoteResponse:
    """If `error` is set, the whole request failed and the other fields are unset.  `leader_id` is -1 if unknown."""

    error: ErrorCode = ErrorCode.none
    partition_error: ErrorCode = ErrorCode.none
    leader_id: int = -1
    leader_epoch: int = -1
    vote_granted: bool = False
    leader_endpoint: Endpoint | None = None
    topic: str = NO_TOPIC
    partition: int = 0


def _fields_of_request(request: VoteRequest, version: int) -> Fields:
    if request.pre_vote and version < 2:
        raise UnsupportedVersionError(
            f"Vote v{version} cannot carry a pre-vote: version 2 or later is needed (KIP-996)"
        )
    partition = {
        "partition_index": request.partition,
        "replica_epoch": request.replica_epoch,
        "replica_id": request.replica.id,
        "replica_directory_id": request.replica.directory_id,
        "voter_directory_id": request.voter_directory_id,
        "last_offset_epoch": request.last_offset_epoch,
        "last_offset": request.last_offset,
        "pre_vote": request.pre_vote,
    }
    return {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter_id,
        "topics": fields_of_topic(request.topic, partition),
    }


def _request_of_fields(fields: Fields, version: int) -> VoteRequest:
    topic, partition = topic_of_request(fields)
    if partition is None:
        partition = {"partition_index": NO_PARTITION}
    return VoteRequest(
        cluster_id=fields["cluster_id"],
        voter_id=fields.get("voter_id", -1),
        topic=topic,
        partition=partition["partition_index"],
        replica=ReplicaKey(partition.get("replica_id", -1), partition.get("replica_directory_id", NO_DIRECTORY_ID)),
        replica_epoch=partition.get("replica_epoch", -1),
        voter_directory_id=partition.get("voter_directory_id", NO_DIRECTORY_ID),
        last_offset=partition.get("last_offset", -1),
        last_offset_epoch=partition.get("last_offset_epoch", -1),
        pre_vote=partition.get("pre_vote", False),
    )


def _fields_of_response(response: VoteResponse, version: int) -> Fields:
    partition = {
        "partition_index": response.partition,
        "error_code": response.partition_error,
        "leader_id": response.leader_id,
        "leader_epoch": response.leader_epoch,
        "vote_granted": response.vote_granted,
    }
    return {
        "error_code": response.error,
        "topics": fields_of_answered_topic(response.error, response.topic, partition),
        "node_endpoints": fields_of_leader_endpoint(response.leader_id, response.leader_endpoint),
    }


def _response_of_fields(fields: Fields, version: int) -> VoteResponse:
    topic, partition = topic_of_response(fields)
    if partition is None:
        return VoteResponse(error=fields["error_code"])
    return VoteResponse(
        partition_error=partition["error_code"],
        leader_id=partition["leader_id"],
        leader_epoch=partition["leader_epoch"],
        vote_granted=partition["vote_granted"],
        leader_endpoint=leader_endpoint_of_fields(partition["leader_id"], fields),
        topic=topic,
        partition=partition["partition_index"],
    )


_SCHEMA: Final = """\
request
    cluster_id: string?
    voter_id: int32 1+
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            replica_epoch: int32
            replica_id: int32
            replica_directory_id: uuid 1+
            voter_directory_id: uuid 1+
            last_offset_epoch: int32
            last_offset: int64
            pre_vote: bool 2+
response
    error_code: error_code
    topics: [TopicData]
        topic_name: string
        partitions: [PartitionData]
            partition_index: int32
            error_code: error_code
            leader_id: int32
            leader_epoch: int32
            vote_granted: bool
    node_endpoints: [NodeEndpoint] 1+ tag 0
        node_id: int32
        host: string
        port: uint16
"""

VOTE: Final = Api(
    key=52,
    name="Vote",
    schema=_SCHEMA,
    min_version=0,
    max_version=2,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: VoteResponse(error=error),
)
