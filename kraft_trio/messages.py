"""The messages between actors: frozen values.

Rule R3: a message that belongs to an epoch carries a `Stamp`, and the receiver drops a message with an outdated stamp.
The epoch alone is not enough, because a node can also change its role within an epoch (Unattached to Prospective).
"""

from __future__ import annotations

from typing import Protocol

import attrs
import trio

from kraft_trio.channels import Mailbox, Reply
from kraft_trio.protocol.read_barrier import ReadIndex
from kraft_trio.protocol.roles import Prospective, Role
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipResponse
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode


@attrs.frozen
class Stamp:
    """One period in one role: the epoch, and the number of the transition that began it (unique in the process)."""

    epoch: int
    transition: int


# To Election


@attrs.frozen
class VoteReceived:
    request: VoteRequest
    reply: Reply[VoteResponse]
    listener_name: str | None = None
    """The listener that received the request, or None for the node's first controller listener."""


@attrs.frozen
class BeginQuorumEpochReceived:
    request: BeginQuorumEpochRequest
    reply: Reply[BeginQuorumEpochResponse]
    listener_name: str | None = None


@attrs.frozen
class EndQuorumEpochReceived:
    request: EndQuorumEpochRequest
    reply: Reply[EndQuorumEpochResponse]
    listener_name: str | None = None


@attrs.frozen
class LeaderHeardOf:
    """A peer's answer named an epoch, and perhaps its leader.  No stamp: facts about an epoch stay true."""

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints
    from_leader: bool = False
    """Whether the leader itself has answered."""

    @classmethod
    def of_response(cls, epoch: int, leader_id: int, endpoint: Endpoint | None, listener_name: str) -> LeaderHeardOf:
        """From the fields of a response.  A negative leader id means that no leader is known."""
        endpoints = Endpoints({listener_name: endpoint} if endpoint is not None else {})
        return cls(epoch, leader_id if leader_id >= 0 else None, endpoints)


@attrs.frozen
class VoteRoundEnded:
    """The round was won, or lost because a majority refused.  `skip_pre_vote`: a peer has no pre-votes (KIP-996)."""

    stamp: Stamp
    won: bool
    granting: frozenset[ReplicaKey] = frozenset()
    skip_pre_vote: bool = False

    @property
    def reason(self) -> str | None:
        """Why the round counts as it does, for the log."""
        return "a peer has no pre-votes" if self.skip_pre_vote else None


@attrs.frozen
class TimedOut:
    """The timer of the role has expired: the election timeout, the fetch timeout or the resigned leader's wait."""

    stamp: Stamp


@attrs.frozen
class LeadershipLost:
    """The leader must resign in its own epoch, because it lost contact with the majority or was asked to."""

    stamp: Stamp
    reason: str
    successor: ReplicaKey | None = None
    """The voter to campaign first; None for the one with the longest log."""


@attrs.frozen
class HandedOver:
    """The resigned leader has told every voter that its epoch is over."""

    stamp: Stamp


@attrs.frozen
class FetchedFromLeader:
    """The follower got its first valid Fetch answer of the epoch.  From now on it refuses pre-votes (KIP-996)."""

    stamp: Stamp


@attrs.frozen
class LeaderAnsweredAt:
    """The leader of the epoch has answered at another address than this follower knew."""

    stamp: Stamp
    leader_endpoints: Endpoints


@attrs.frozen
class VotersChanged:
    """The newest voter set in the log has changed.  Rule R2: this only reports the change; the log is the source."""

    voters: VoterSet
    kraft_version: int


@attrs.frozen
class LeaderChangeCommitted:
    """The leader of the epoch has committed its first record, which names the static voters that have elected it."""

    stamp: Stamp


@attrs.frozen
class ShutDown:
    """Resign if leading, then vote but do not campaign.  Answered when there is nothing left to hand over."""

    reply: Reply[None]


ElectionMessage = (
    VoteReceived
    | BeginQuorumEpochReceived
    | EndQuorumEpochReceived
    | LeaderHeardOf
    | VoteRoundEnded
    | TimedOut
    | LeadershipLost
    | HandedOver
    | FetchedFromLeader
    | LeaderAnsweredAt
    | VotersChanged
    | LeaderChangeCommitted
    | ShutDown
)

# To LeaderReplication


class Asker(Protocol):
    """A connection, as the actor that answers its requests sees it."""

    def answer_room(self) -> int:
        """The most bytes to read for an answer that is given in the same step, or 0."""
        ...

    software: str
    """What the peer says that it runs, in ApiVersions (KIP-511); empty if it has not said."""

    @property
    def principal(self) -> str:
        """Who the peer is, such as `User:CN=node-1`."""
        ...

    @property
    def peer_host(self) -> str:
        """The address of the peer without its port."""
        ...


@attrs.frozen
class FetchReceived:
    """One partition of a Fetch that passed the leader check.  `request` has the fields that the partitions share."""

    request: FetchRequest
    partition: FetchPartition
    replica: ReplicaKey | None
    """The replica or observer that fetches, or None for a consumer."""
    reply: Reply[FetchPartitionResponse]
    asker: Asker | None = None
    """The connection of the request, if any.  A connection may have only a few waiting Fetch requests."""


@attrs.frozen
class SnapshotPiece:
    """Bytes of a snapshot that has `size_in_bytes`, or an `error`."""

    error: ErrorCode
    size_in_bytes: int = 0
    data: bytes | memoryview = b""


@attrs.frozen
class FetchSnapshotReceived:
    """A FetchSnapshot that passed the leader check."""

    request: FetchSnapshotRequest
    replica: ReplicaKey | None
    """The replica or observer that asks, or None for a tool."""
    reply: Reply[SnapshotPiece]


@attrs.frozen
class ProduceReceived:
    """One encoded batch.  The sender has checked its header, its CRC and its records."""

    records: bytes
    header: BatchHeader
    timeout_ms: int
    reply: Reply[ProducePartitionResponse]


@attrs.frozen
class ProducerIdRequested:
    reply: Reply[int | None]
    """A new producer id, or None if the epoch is over."""


@attrs.frozen
class CommittedEndRequested:
    reply: Reply[int | None]
    """The high watermark (exclusive), or None if it is not known in this epoch or the epoch is over."""


@attrs.frozen
class ReadIndexRequested:
    """A read that must see every append that was acknowledged before."""

    reply: Reply[ReadIndex | None]
    """None if the epoch is over."""


@attrs.frozen
class DescribeQuorumReceived:
    request: DescribeQuorumRequest
    reply: Reply[DescribeQuorumResponse]


# To VoterChangeCoordinator.  Each `deadline` is on Trio's clock and bounds all waits of the change


@attrs.frozen
class AddVoterReceived:
    request: AddRaftVoterRequest
    deadline: float
    reply: Reply[AddRaftVoterResponse]


@attrs.frozen
class RemoveVoterReceived:
    request: RemoveRaftVoterRequest
    deadline: float
    reply: Reply[RemoveRaftVoterResponse]


@attrs.frozen
class UpdateVoterReceived:
    """An UpdateRaftVoter request with the epoch of this leader."""

    request: UpdateRaftVoterRequest
    deadline: float
    reply: Reply[UpdateRaftVoterResponse]


@attrs.frozen
class UpdateFeaturesReceived:
    request: UpdateFeaturesRequest
    deadline: float
    reply: Reply[UpdateFeaturesResponse]


@attrs.frozen
class ReassignmentAnswer:
    """Whether the target is set or, with `error`, why it is not."""

    error: ErrorCode
    reason: str | None = None


@attrs.frozen
class ReassignVotersReceived:
    """The target voters, whose directory ids may be unknown, or None to cancel the reassignment."""

    target: tuple[ReplicaKey, ...] | None
    deadline: float
    reply: Reply[ReassignmentAnswer]
    may_change_count: bool = True
    """Whether the target may have more or fewer voters than there are."""


@attrs.frozen
class TransferLeadershipReceived:
    voter_id: int
    deadline: float
    reply: Reply[TransferLeadershipResponse]


VoterChangeMessage = (
    AddVoterReceived
    | RemoveVoterReceived
    | UpdateVoterReceived
    | UpdateFeaturesReceived
    | ReassignVotersReceived
    | TransferLeadershipReceived
)

LeaderMessage = (
    FetchReceived
    | FetchSnapshotReceived
    | ProduceReceived
    | ProducerIdRequested
    | CommittedEndRequested
    | ReadIndexRequested
    | DescribeQuorumReceived
)


# Published by Election at each transition


@attrs.frozen
class QuorumView:
    """The quorum as one node sees it: epoch, role, leader, voters.  Immutable; replaced at each transition."""

    stamp: Stamp
    role: Role
    leader_id: int | None
    """The leader that this node follows, or itself while it leads.  Requests for the leader go there."""
    leader_endpoints: Endpoints
    leader_mailbox: Mailbox[LeaderMessage] | None
    """The mailbox of this node's LeaderReplication, while the node leads."""
    voter_changes: trio.MemorySendChannel[VoterChangeMessage] | None
    """The mailbox of this node's VoterChangeCoordinator, while the node leads."""
    voters: VoterSet
    """The newest set in the log, as the internal listener reported it.  For display and routing, not for counting."""
    kraft_version: int
    known_leader_id: int | None
    """Kafka's `leaderId()`: also a leader of this epoch that the node has lost or cannot reach, or that resigned."""

    @property
    def epoch(self) -> int:
        return self.stamp.epoch

    def named_leader(self, asker_id: int, listener_name: str) -> tuple[int, Endpoint | None]:
        """The id and endpoint of the leader that a response to that replica names; -1 and None if unknown.

        To replicas, a node names the leader that it knows, as Kafka's do.  It does not tell a replica that the replica
        was the leader that it has lost: one of Kafka's that has lost its state would end.  A client (-1) hears of a
        leader only if the node follows it, and otherwise asks others.
        """
        if self.leader_id is not None:
            return self.leader_id, self.leader_endpoint_near(listener_name)
        known_id = self.known_leader_id
        if known_id is None or asker_id in (known_id, -1):
            return -1, None
        voter = self.voters.get(known_id)
        places = [self.role.leader_endpoints] if isinstance(self.role, Prospective) else []
        places += [voter.endpoints] if voter is not None else []
        near = (place.get(listener_name) for place in places)
        return known_id, next((endpoint for endpoint in near if endpoint is not None), None)

    def leader_endpoint(self, listener_name: str) -> Endpoint | None:
        return self.leader_endpoints.get(listener_name)

    def leader_endpoint_near(self, listener_name: str) -> Endpoint | None:
        """The leader's endpoint on that listener, from the leader or the voter set; else on its default listener."""
        endpoint = self.leader_endpoint(listener_name)
        if endpoint is None and self.leader_id is not None and (voter := self.voters.get(self.leader_id)) is not None:
            endpoint = voter.endpoints.get(listener_name)
        return endpoint or next((endpoint for _, endpoint in self.leader_endpoints), None)


@attrs.frozen
class Staleness:
    """How old a node's state may be, if it is read without a barrier."""

    offset: int
    """The application has every committed record below this offset (exclusive).  Without one, the log has."""
    age_ms: int | None
    """How long ago the node last heard from its leader or, as leader, from a majority of the voters.

    Appends that were acknowledged later may be missing.  More may be missing if a leader that has been replaced did not
    know of it yet.  None if the node has heard from none since it started."""
