"""RemoveRaftVoter: an administrator, or a node's new incarnation, removes a voter (KIP-853 "RemoveVoter")."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.apis.voter_change_response import VoterChangeResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.fields import Int32, String, Uuid


@attrs.frozen
class RemoveRaftVoterRequest:
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


@attrs.frozen
class RemoveRaftVoterResponse(VoterChangeResponse):
    """Whether the voter was removed."""


REMOVE_RAFT_VOTER: Final = Api(
    key=81,
    name="RemoveRaftVoter",
    request=RemoveRaftVoterRequest,
    response=RemoveRaftVoterResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=RemoveRaftVoterResponse,
)
