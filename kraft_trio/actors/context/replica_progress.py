"""What the leader knows of each replica: its synced end, its last fetch, when it was last caught up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import attrs

from kraft_trio.protocol.acknowledged_end import AcknowledgedEnd, CameBack
from kraft_trio.protocol.check_quorum import ReplicaPosition
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import excess_of
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, QuorumReplica

NO_LISTENERS = Endpoints()
OBSERVER_FORGOTTEN_AFTER_S = 300.0
MAX_REPLICAS = 1000
"""Limit for known replicas.  Beyond it, the observer that has been silent longest is forgotten."""


@attrs.define
class ReplicaProgress:
    """The progress of one replica, from its requests.  Times are on Trio's clock.

    `end_offset` is exclusive and durable on the replica (docs/explanation/decisions.md#only-synced-records-count).
    """

    end_offset: int
    last_fetch_s: float
    last_contact_s: float = -math.inf
    """When a request last showed that the replica receives responses (check-quorum)."""
    position: ReplicaPosition = attrs.field(factory=ReplicaPosition)
    acknowledged: AcknowledgedEnd = attrs.field(factory=AcknowledgedEnd)
    is_shared: bool = False
    """Whether two processes fetch as this replica, from copies of one directory."""
    last_caught_up_s: float = -math.inf
    leader_end_offset_at_last_fetch: int = -1
    kraft_versions: VersionRange | None = None
    """From the replica's last Fetch; None if that did not say."""
    listeners: Endpoints = Endpoints()
    """From the replica's last Fetch.  Empty for a voter, and if they exceed a limit."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing counts that the replica has: it broke its promises, or two processes give them."""
        return self.acknowledged.is_lacking or self.is_shared


class ProgressTable:
    """Progress by replica key; owned by LeaderReplication of one epoch."""

    def __init__(
        self, leader: ReplicaKey, epoch_started_s: float, acknowledged: Mapping[ReplicaKey, int] | None = None
    ) -> None:
        """`acknowledged`: the ends (exclusive) that replicas are known to have acknowledged in earlier epochs."""
        self._leader = leader
        self._acknowledged = acknowledged or {}
        self._epoch_started_s = epoch_started_s
        self._replicas: dict[ReplicaKey, ReplicaProgress] = {}

    def fetched(
        self,
        replica: ReplicaKey,
        end_offset: int,
        *,
        leader_end_offset: int,
        now_s: float,
        kraft_versions: VersionRange | None = None,
        listeners: Endpoints = NO_LISTENERS,
    ) -> bool:
        """Note a valid Fetch at `end_offset`.  Returns whether the replica's end has changed."""
        progress = self._replicas.get(replica)
        is_news = progress is None or progress.end_offset != end_offset
        if progress is None:
            progress = self._know(replica, end_offset, now_s)
        if end_offset >= leader_end_offset:
            progress.last_caught_up_s = now_s
        elif end_offset >= progress.leader_end_offset_at_last_fetch >= 0:
            progress.last_caught_up_s = max(progress.last_caught_up_s, progress.last_fetch_s)
        if progress.position.fetches(end_offset, leader_end_offset):
            progress.last_contact_s = now_s
        progress.end_offset = end_offset
        progress.last_fetch_s = now_s
        progress.leader_end_offset_at_last_fetch = leader_end_offset
        progress.kraft_versions = kraft_versions
        progress.listeners = NO_LISTENERS if excess_of(listeners) else listeners
        return is_news

    def acknowledges(self, replica: ReplicaKey, offset: int, connection: object) -> CameBack | None:
        """Note the position of a Fetch, before `fetched` notes the rest.  `connection` is compared by identity.

        A replica that lacks records which it had acknowledged counts as blank until it has them.  Returns its return,
        once that is certain.
        """
        progress = self._replicas.get(replica)
        if progress is None:
            if offset >= self._acknowledged.get(replica, 0):
                return None
            progress = self._know(replica, offset, -math.inf)
        came_back = progress.acknowledged.fetches(offset, connection)
        if came_back is not None:
            progress.position, progress.last_caught_up_s = ReplicaPosition(), -math.inf
        return came_back

    def is_lacking(self, replica: ReplicaKey) -> bool:
        """Whether the replica certainly lacks records that it had acknowledged."""
        progress = self._replicas.get(replica)
        return progress is not None and progress.acknowledged.is_lacking

    def note_sharing(self, replica: ReplicaKey, *, is_shared: bool) -> bool:
        """Note whether two processes fetch as that replica, which has fetched.  Returns whether that has changed."""
        progress = self._replicas[replica]
        has_changed, progress.is_shared = progress.is_shared != is_shared, is_shared
        return has_changed

    def committed_acknowledgements(self, voters: VoterSet, high_watermark: int | None) -> dict[ReplicaKey, int]:
        """The ends (exclusive) of what the voters acknowledged of the committed log, in this epoch or before."""
        known = {key: progress.acknowledged.offset for key, progress in self._replicas.items()}
        return {
            key: min(offset, high_watermark or 0)
            for key, offset in {**self._acknowledged, **known}.items()
            if voters.is_voter(key)
        }

    def fetched_snapshot(
        self, replica: ReplicaKey, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, *, now_s: float
    ) -> None:
        """Note that a replica received a piece of a snapshot, which is contact but no progress."""
        progress = self._replicas.get(replica)
        if progress is None:
            progress = self._know(replica, 0, now_s)
        if progress.position.fetches_snapshot(snapshot_id, position, max_bytes):
            progress.last_contact_s = now_s
        progress.last_fetch_s = now_s

    def _know(self, replica: ReplicaKey, end_offset: int, now_s: float) -> ReplicaProgress:
        if len(self._replicas) >= MAX_REPLICAS:
            del self._replicas[min(self._replicas, key=lambda key: self._replicas[key].last_fetch_s)]
        acknowledged = AcknowledgedEnd(max(end_offset, self._acknowledged.get(replica, 0)))
        progress = self._replicas[replica] = ReplicaProgress(end_offset, now_s, acknowledged=acknowledged)
        return progress

    def is_caught_up(self, key: ReplicaKey, since_s: float) -> bool:
        """Whether, at some time since `since_s`, the replica held all that the leader's log had."""
        progress = self._replicas.get(key)
        return progress is not None and progress.last_caught_up_s >= since_s

    def get(self, key: ReplicaKey) -> ReplicaProgress | None:
        """The progress of exactly that replica, or None if it has not fetched in this epoch."""
        return self._replicas.get(key)

    def observers(self, voters: VoterSet) -> dict[ReplicaKey, ReplicaProgress]:
        """The other replicas that have fetched in this epoch."""
        return {key: progress for key, progress in self._replicas.items() if not voters.is_voter(key)}

    def of_voter(self, voter: Voter) -> ReplicaProgress | None:
        """The progress of the incarnation that is the voter, or None while it has not fetched in this epoch."""
        key = self._incarnation(voter)
        return None if key is None else self._replicas[key]

    def _incarnation(self, voter: Voter) -> ReplicaKey | None:
        """The voter's key.  If its directory id is unknown, the incarnation that fetched last."""
        if voter.key in self._replicas:
            return voter.key
        only_voter = VoterSet((voter,))
        candidates = [key for key in self._replicas if only_voter.is_voter(key)]
        return max(candidates, key=lambda key: self._replicas[key].last_fetch_s, default=None)

    def synced_end_offsets(self, voters: VoterSet, own_synced_end_offset: int) -> dict[ReplicaKey, int]:
        """Exclusive durable end of each voter that has fetched in this epoch, and the leader's own.

        The end of a voter that counts as blank is 0.
        """
        offsets = {self._leader: own_synced_end_offset}
        for voter in voters:
            if voter.id != self._leader.id and (key := self._incarnation(voter)) is not None:
                progress = self._replicas[key]
                offsets[key] = 0 if progress.is_blank else progress.end_offset
        return offsets

    def last_contact_ms(self, voters: VoterSet) -> dict[ReplicaKey, float]:
        """When each other voter last made contact, on Trio's clock; the start of the epoch if it has not since then."""
        return {
            self._incarnation(voter) or voter.key: self._last_contact_s(voter) * 1000
            for voter in voters
            if voter.id != self._leader.id
        }

    def last_fetch_s(self, voter: Voter) -> float:
        """When the voter last fetched in this epoch; minus infinity if never."""
        progress = self.of_voter(voter)
        return progress.last_fetch_s if progress is not None else -math.inf

    def _last_contact_s(self, voter: Voter) -> float:
        progress = self.of_voter(voter)
        return self._epoch_started_s if progress is None else max(self._epoch_started_s, progress.last_contact_s)

    def majority_fetch_s(self, voters: VoterSet, now_s: float) -> float | None:
        """The latest time since which a majority has fetched; None if none has in this epoch."""
        fetches = sorted(
            (self.last_fetch_s(voter) if voter.id != self._leader.id else now_s for voter in voters), reverse=True
        )
        fetch_s = fetches[voters.majority - 1] if fetches else -math.inf
        return None if fetch_s == -math.inf else fetch_s

    def majority_contact_ends_at(self, voters: VoterSet, timeout_s: float, now_s: float) -> float:
        """When contact with a majority ends if no replica makes contact from now on."""
        if len(voters) <= 1:
            return now_s + timeout_s
        contacts = sorted(
            (self._last_contact_s(voter) for voter in voters if voter.id != self._leader.id), reverse=True
        )
        others_needed = voters.majority - (1 if voters.is_voter(self._leader) else 0)
        return max(contacts[min(others_needed, len(contacts)) - 1], now_s - timeout_s) + timeout_s

    def end_offsets_of_others(self, voters: VoterSet) -> list[tuple[ReplicaKey, int]]:
        """The other voters with their exclusive synced ends, or -1 if unknown or blank; for choosing successors."""
        return [
            (voter.key, progress.end_offset if (progress := self.of_voter(voter)) and not progress.is_blank else -1)
            for voter in voters
            if voter.id != self._leader.id
        ]

    def endpoints(self, listener: str, *, since_s: float) -> set[Endpoint | None]:
        """Where the replicas listen by their own word that have fetched since then (inclusive)."""
        return {
            progress.listeners.get(listener) for progress in self._replicas.values() if progress.last_fetch_s >= since_s
        }

    def number_of_observers(self, voters: VoterSet, now_s: float) -> int:
        """How many observers have fetched lately (KIP-853 "number-of-observers")."""
        self._forget_lost_observers(voters, now_s)
        return sum(not voters.is_voter(key) for key in self._replicas)

    def observer_versions(self, voters: VoterSet, now_s: float) -> dict[ReplicaKey, VersionRange]:
        """The kraft.versions that each observer supports, if it has fetched lately and told them."""
        self._forget_lost_observers(voters, now_s)
        return {
            key: progress.kraft_versions
            for key, progress in self._replicas.items()
            if progress.kraft_versions is not None and not voters.is_voter(key)
        }

    def number_of_silent_voters(self, voters: VoterSet, timeout_s: float, now_s: float) -> int:
        """How many other voters have had no contact for `timeout_s`.  The start of the epoch counts as contact."""
        return sum(now_s - self._last_contact_s(voter) > timeout_s for voter in voters if voter.id != self._leader.id)

    def describe(
        self,
        request: DescribeQuorumRequest,
        *,
        epoch: int,
        voters: VoterSet,
        high_watermark: int | None,
        leader_end_offset: int,
        now_s: float,
        now_ms: int,
        present_since_s: float,
        target: Iterable[ReplicaKey] = (),
    ) -> DescribeQuorumResponse:
        """KIP-595 "DescribeQuorum", KIP-836 timestamps, KIP-853 directory ids and nodes.

        An observer has a node if it has fetched since `present_since_s`.
        """
        self._forget_lost_observers(voters, now_s)

        def wall(time_s: float) -> int:
            return -1 if time_s == -math.inf else now_ms - round((now_s - time_s) * 1000)

        def replica(key: ReplicaKey, progress: ReplicaProgress | None) -> QuorumReplica:
            if key.names(self._leader.id, self._leader.directory_id):
                return QuorumReplica(key, leader_end_offset, now_ms, now_ms)
            if progress is None:
                return QuorumReplica(key, -1, -1, -1)
            return QuorumReplica(key, progress.end_offset, wall(progress.last_fetch_s), wall(progress.last_caught_up_s))

        observers = [(key, progress) for key, progress in self._replicas.items() if not voters.is_voter(key)]
        if not voters.is_voter(self._leader):
            observers.append((self._leader, ReplicaProgress(leader_end_offset, now_s, last_caught_up_s=now_s)))
        return DescribeQuorumResponse.described(
            request,
            leader_id=self._leader.id,
            leader_epoch=epoch,
            high_watermark=-1 if high_watermark is None else high_watermark,
            voters=tuple(replica(voter.key, self.of_voter(voter)) for voter in voters),
            observers=tuple(replica(key, progress) for key, progress in sorted(observers, key=lambda item: item[0])),
            nodes=(*voters, *self._observer_nodes(voters, present_since_s)),
            target_voters=tuple(replica(key, self._replicas.get(key)) for key in target),
        )

    def _observer_nodes(self, voters: VoterSet, present_since_s: float) -> Iterable[Voter]:
        """The observers that have told listeners.  If several have one id, the one that fetched last."""
        present = [
            (progress.last_fetch_s, key)
            for key, progress in self._replicas.items()
            if len(progress.listeners) and progress.last_fetch_s >= present_since_s and voters.get(key.id) is None
        ]
        newest = {key.id: key for _, key in sorted(present)}
        return [Voter(key, self._replicas[key].listeners) for key in newest.values()]

    def _forget_lost_observers(self, voters: VoterSet, now_s: float) -> None:
        self._replicas = {
            key: progress
            for key, progress in self._replicas.items()
            if voters.is_voter(key) or now_s - progress.last_fetch_s < OBSERVER_FORGOTTEN_AFTER_S
        }
