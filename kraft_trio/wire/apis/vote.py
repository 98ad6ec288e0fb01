"""Vote: a candidate, or with `pre_vote` a replica that may become one, asks for a vote (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
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
class VoteResponse(QuorumEpochResponse):
    """The leader that the receiver knows, and whether it grants the vote."""

    vote_granted: bool = False


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
    return VoteRequest(
        cluster_id=fields["cluster_id"],
        voter_id=fields.get("voter_id", -1),
        topic=topic,
        partition=partition.get("partition_index", NO_PARTITION),
        replica=ReplicaKey(partition.get("replica_id", -1), partition.get("replica_directory_id", NO_DIRECTORY_ID)),
        replica_epoch=partition.get("replica_epoch", -1),
        voter_directory_id=partition.get("voter_directory_id", NO_DIRECTORY_ID),
        last_offset=partition.get("last_offset", -1),
        last_offset_epoch=partition.get("last_offset_epoch", -1),
        pre_vote=partition.get("pre_vote", False),
    )


def _fields_of_response(response: VoteResponse, version: int) -> Fields:
    return fields_of_quorum_epoch_response(response, version, vote_granted=response.vote_granted)


_REQUEST_SCHEMA: Final = """\
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
"""

VOTE: Final = Api(
    key=52,
    name="Vote",
    schema=_REQUEST_SCHEMA + quorum_epoch_response_schema("vote_granted: bool"),
    min_version=0,
    max_version=2,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=lambda fields, _version: quorum_epoch_response_of_fields(VoteResponse, fields, "vote_granted"),
    error_response=lambda error, _message: VoteResponse(error=error),
)
