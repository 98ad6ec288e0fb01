"""AddRaftVoter: an administrator, or a node that joins by itself, adds a voter (KIP-853 "AddVoter", KIP-1186)."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.apis.voter_change_response import VoterChangeResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.fields import Bool, Int32, Place, String, Uuid

_ALWAYS_WHEN_COMMITTED: Final = (
    "AddRaftVoter v{version} is always answered when committed: version 1 is needed for less (KIP-1186)"
)


@attrs.frozen
class AddRaftVoterRequest:
    """`timeout_ms` bounds all of the leader's waits.  Without `ack_when_committed` it answers after its append."""

    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Listeners
    ack_when_committed: Annotated[Bool, Place(since=1, needs=_ALWAYS_WHEN_COMMITTED)] = True


@attrs.frozen
class AddRaftVoterResponse(VoterChangeResponse):
    """Whether the voter was added."""


ADD_RAFT_VOTER: Final = Api(
    key=80,
    name="AddRaftVoter",
    request=AddRaftVoterRequest,
    response=AddRaftVoterResponse,
    min_version=0,
    max_version=1,
    flexible_version=0,
    error_response=AddRaftVoterResponse,
)
