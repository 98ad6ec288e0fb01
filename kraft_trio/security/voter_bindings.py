"""Which principal may speak for which replica: with a binding, no voter can vote as another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest


@attrs.frozen
class Claim:
    """The replica in whose name a request speaks.  The zero directory id means that the request names none."""

    node_id: int
    directory_id: UUID = NO_DIRECTORY_ID

    def __str__(self) -> str:
        if self.directory_id == NO_DIRECTORY_ID:
            return f"node {self.node_id}"
        return f"node {self.node_id} ({directory_id_to_text(self.directory_id)})"


@attrs.frozen
class Binding:
    """`principal` may speak for this replica; the zero directory id means any."""

    principal: str
    node_id: int
    directory_id: UUID = NO_DIRECTORY_ID

    def covers(self, principal: str, claim: Claim) -> bool:
        """Several nodes may share a principal."""
        is_of_directory = NO_DIRECTORY_ID in (self.directory_id, claim.directory_id)
        return (self.principal, self.node_id) == (principal, claim.node_id) and (
            is_of_directory or self.directory_id == claim.directory_id
        )


def claims_of(request: Any) -> tuple[Claim, ...]:
    """The replicas as which a request speaks; none for a request of a client."""
    match request:
        case VoteRequest():
            return (Claim(request.replica.id, request.replica.directory_id),)
        case FetchRequest() if request.replica_id >= 0:
            directories = dict.fromkeys(one.replica_directory_id for one in request.partitions)
            return tuple(Claim(request.replica_id, one) for one in directories) or (Claim(request.replica_id),)
        case FetchSnapshotRequest() if request.replica_id >= 0:
            return (Claim(request.replica_id, request.replica_directory_id),)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return (Claim(request.leader_id),)
        case UpdateRaftVoterRequest():
            return (Claim(request.voter_id, request.voter_directory_id),)
        case _:
            return ()


def false_claim(principal: str, request: Any, bindings: Iterable[Binding]) -> Claim | None:
    """The claim that the bindings forbid, or None.

    A principal with a binding speaks for its replicas only, and a bound replica has no other principal.
    """
    bindings = tuple(bindings)
    return next((claim for claim in claims_of(request) if not may_speak(principal, claim, bindings)), None)


def may_speak(principal: str, claim: Claim, bindings: Iterable[Binding]) -> bool:
    """Whether the bindings allow that claim."""
    concerned = [one for one in bindings if one.principal == principal or one.node_id == claim.node_id]
    return not concerned or any(one.covers(principal, claim) for one in concerned)
