"""What actors say to each other: frozen values, and the one-slot channel for an answer.

Rule R3: a message that belongs to an epoch carries a `Stamp`; its receiver drops it when the stamp is no longer its
own.  The epoch alone would not do, as a node changes its role within one epoch too (Unattached to Prospective).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs
import trio

from kraft_trio.protocol.roles import Role
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batch_header import BatchHeader
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode

T = TypeVar("T")


class Reply(Generic[T]):
    """A one-slot channel for the answer to one message.

    The receiver of the message answers exactly once, and always: an actor that ends answers what it still holds.
    Whoever asked either waits in `receive` or has itself called back.  It may lose interest: it then calls `abandon`,
    the answer is nobody's, and the receiver may drop the message instead of answering it.
    """

    __slots__ = ("_abandoned", "_listeners", "_value", "is_abandoned", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self._abandoned: Callable[[], object] | None = None
        self.is_abandoned = False
        """Whether nobody waits for the answer any more."""
        self._listeners: list[Callable[[], object]] = []
        self._value: T

    def answer(self, value: T) -> None:
        """Give the answer; whoever asked to be called back is, before this returns."""
        assert not self.is_answered, "a message is answered once"
        self._value = value
        self.is_answered = True
        # Its closure may hold this reply: the cycle would keep the whole message until the garbage collector runs.
        self._abandoned = None
        for listener in self._listeners:
            listener()
        self._listeners.clear()

    @property
    def value(self) -> T:
        """The answer; only to be read once there is one."""
        assert self.is_answered, "not answered yet"
        return self._value

    def when_answered(self, listener: Callable[[], object]) -> None:
        """Call `listener`, which must neither block nor fail, when the answer comes; at once if it is there."""
        if self.is_answered:
            listener()
        else:
            self._listeners.append(listener)

    def abandon(self) -> None:
        """Nobody waits for the answer any more.  Calls what `when_abandoned` was given, unless there is an answer.

        Called at most once, by whoever asked.
        """
        self.is_abandoned = True
        self._listeners.clear()
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None:
            abandoned()

    def when_abandoned(self, listener: Callable[[], object]) -> None:
        """Call `listener`, which must neither block nor fail, when nobody waits any more; at once if nobody does.

        For the receiver that keeps the message for long, and could drop it.
        """
        self._abandoned = listener
        if self.is_abandoned:
            listener()

    async def receive(self) -> T:
        """Wait for the answer; a cancelled wait gives it up."""
        if not self.is_answered:
            arrived = trio.Event()
            self._listeners.append(arrived.set)
            await arrived.wait()
        return self._value


@attrs.frozen
class Stamp:
    """One stay in one role: the epoch, and the number of the transition that began it (unique within the process)."""

    epoch: int
    transition: int


# To Election


@attrs.frozen
class VoteReceived:
    request: VoteRequest
    reply: Reply[VoteResponse]
    listener_name: str | None = None
    """The listener that was asked; None for the node's first controller listener."""


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
    """A peer's answer named an epoch, and perhaps its leader.  Facts about an epoch never go stale: no stamp."""

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints

    @classmethod
    def told(cls, epoch: int, leader_id: int, endpoint: Endpoint | None, listener_name: str) -> LeaderHeardOf:
        """From the fields of a response, in which a negative leader id stands for none."""
        endpoints = Endpoints({listener_name: endpoint} if endpoint is not None else {})
        return cls(epoch, leader_id if leader_id >= 0 else None, endpoints)


@attrs.frozen
class VoteRoundEnded:
    """Won, or lost because a majority refused.  `skip_pre_vote` where a peer does not know pre-votes (KIP-996)."""

    stamp: Stamp
    won: bool
    granting: frozenset[ReplicaKey] = frozenset()
    skip_pre_vote: bool = False


@attrs.frozen
class TimedOut:
    """The timer of the role has run out: election timeout, fetch timeout, or the resigned leader's wait."""

    stamp: Stamp


@attrs.frozen
class LeadershipLost:
    """The leader must resign in its own epoch: no majority in contact, or asked to."""

    stamp: Stamp
    reason: str


@attrs.frozen
class HandedOver:
    """The resigned leader has told every voter that its epoch is over."""

    stamp: Stamp


@attrs.frozen
class FetchedFromLeader:
    """The follower's first valid Fetch answer of the epoch: from now on it refuses pre-votes (KIP-996)."""

    stamp: Stamp


@attrs.frozen
class VotersChanged:
    """The newest voter set of the log is another one than before (rule R2: told after the fact, never the source)."""

    voters: VoterSet
    kraft_version: int


@attrs.frozen
class ShutDown:
    """Resign if leading, then go on voting but not campaigning.  Answered once there is nothing left to hand over."""

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
    | VotersChanged
    | ShutDown
)

# To LeaderReplication


class Asker(Protocol):
    """A connection, as whoever answers what came by it sees it."""

    def answer_room(self) -> int:
        """How many bytes may be read for an answer, if it is given in the same step; 0: none."""
        ...


@attrs.frozen
class FetchReceived:
    """One partition of a Fetch that passed the leader check; `request` holds what the partitions share."""

    request: FetchRequest
    partition: FetchPartition
    replica: ReplicaKey | None
    """Who fetches, as replica or observer; None for a consumer."""
    reply: Reply[FetchPartitionResponse]
    asker: Asker | None = None
    """The connection that it came by, if any: one of them may have a few Fetch requests waiting, and no more."""


@attrs.frozen
class SnapshotPiece:
    """Bytes of a snapshot of `size_in_bytes`, or with `error` why there are none."""

    error: ErrorCode
    size_in_bytes: int = 0
    data: bytes | memoryview = b""


@attrs.frozen
class FetchSnapshotReceived:
    """A FetchSnapshot that passed the leader check."""

    request: FetchSnapshotRequest
    replica: ReplicaKey | None
    """Who asks, as replica or observer; None for a tool."""
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
    """A new producer id; None when the epoch is over."""


@attrs.frozen
class CommittedEndRequested:
    reply: Reply[int | None]
    """The high watermark (exclusive); None while it is not known in this epoch, or when the epoch is over."""


@attrs.frozen
class DescribeQuorumReceived:
    request: DescribeQuorumRequest
    reply: Reply[DescribeQuorumResponse]


# To VoterChangeCoordinator: each `deadline` is on Trio's clock, and bounds all that the change waits for


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
    """Its epoch has been found to be this leader's."""

    request: UpdateRaftVoterRequest
    deadline: float
    reply: Reply[UpdateRaftVoterResponse]


@attrs.frozen
class UpdateFeaturesReceived:
    request: UpdateFeaturesRequest
    deadline: float
    reply: Reply[UpdateFeaturesResponse]


VoterChangeMessage = AddVoterReceived | RemoveVoterReceived | UpdateVoterReceived | UpdateFeaturesReceived

LeaderMessage = (
    FetchReceived
    | FetchSnapshotReceived
    | ProduceReceived
    | ProducerIdRequested
    | CommittedEndRequested
    | DescribeQuorumReceived
)


async def deliver(mailbox: trio.MemorySendChannel[T] | None, message: T) -> bool:
    """Put a message into the mailbox of an actor of the leader's; False where this node does not lead.

    Waits while it is full.
    """
    if mailbox is None:
        return False
    try:
        await send_or_wait(mailbox, message)
    except trio.BrokenResourceError:
        return False
    return True


async def send_or_wait(channel: trio.MemorySendChannel[T], value: T) -> None:
    """Send at once where there is room, without the scheduler's round that `send` always takes; else wait for room.

    For hot paths whose loop has another checkpoint.  Raises what `send` raises.
    """
    try:
        channel.send_nowait(value)
    except trio.WouldBlock:
        await channel.send(value)


# Published by Election at each transition


@attrs.frozen
class QuorumView:
    """The quorum as one node sees it: epoch, role, leader, voters.  Immutable; replaced at each transition."""

    stamp: Stamp
    role: Role
    leader_id: int | None
    leader_endpoints: Endpoints
    leader_mailbox: trio.MemorySendChannel[LeaderMessage] | None
    """The mailbox of this node's LeaderReplication while it leads."""
    voter_changes: trio.MemorySendChannel[VoterChangeMessage] | None
    """The mailbox of this node's VoterChangeCoordinator while it leads."""
    voters: VoterSet
    """The newest set in the log, as the internal listener told it: for display and routing, not for counting."""
    kraft_version: int

    @property
    def epoch(self) -> int:
        return self.stamp.epoch

    def leader_endpoint(self, listener_name: str) -> Endpoint | None:
        return self.leader_endpoints.get(listener_name)
