"""Vote: a candidate, or with `pre_vote` a replica that may become one, asks for a vote (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.apis.one_partition import OfAnsweredPartition, OfPartition, TopicName
from kraft_trio.wire.apis.quorum_epoch_response import QuorumEpochResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.fields import INLINE, Bool, Int32, Int64, Parts, Place, String, Uuid

_NO_PRE_VOTE: Final = "Vote v{version} cannot carry a pre-vote: version 2 or later is needed (KIP-996)"


@attrs.frozen
class VoteRequest:
    """Asks replica `voter_id` to vote for `replica`; -1 addresses any receiver."""

    cluster_id: String | None
    voter_id: Annotated[Int32, Place(since=1)]
    topic: TopicName
    partition: OfPartition[Int32]
    replica: OfPartition[
        Annotated[
            ReplicaKey,
            Parts(id=Int32, directory_id=Annotated[Uuid, Place(since=1)]),
            INLINE,
            Place(after="replica_epoch"),
        ]
    ]
    replica_epoch: OfPartition[Int32]
    """The epoch of the campaign, or the current epoch in a pre-vote."""
    voter_directory_id: OfPartition[Annotated[Uuid, Place(since=1)]]
    """The directory id of the receiver, or zero if it is unknown."""
    last_offset: OfPartition[Annotated[Int64, Place(after="last_offset_epoch")]]
    """The exclusive end of the candidate's log."""
    last_offset_epoch: OfPartition[Int32]
    pre_vote: OfPartition[Annotated[Bool, Place(since=2, needs=_NO_PRE_VOTE)]] = False


@attrs.frozen
class VoteResponse(QuorumEpochResponse):
    """The leader that the receiver knows, and whether it grants the vote."""

    vote_granted: OfAnsweredPartition[Bool] = False


VOTE: Final = Api(
    key=52,
    name="Vote",
    request=VoteRequest,
    response=VoteResponse,
    min_version=0,
    max_version=2,
    flexible_version=0,
    error_response=lambda error, _message: VoteResponse(error=error),
)
