"""Descriptions of a quorum and its features, as the leader gives them; without a leader, the views of the nodes.

The source is DescribeQuorum of KIP-595, with the timestamps of KIP-836 and the directory ids and endpoints of KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange

UNKNOWN = -1
"""The protocol's value for an unknown offset, timestamp or leader."""


@attrs.frozen
class ReplicaState:
    """One replica as the leader sees it.  `log_end_offset` is exclusive, times are ms since 1970, and -1 is unknown."""

    key: ReplicaKey
    log_end_offset: int = UNKNOWN
    last_fetch_timestamp_ms: int = UNKNOWN
    last_caught_up_timestamp_ms: int = UNKNOWN
    listeners: Endpoints = Endpoints()
    """Where an observer listens; empty if the leader does not say."""


@attrs.frozen
class QuorumDescription:
    """The quorum as its leader describes it.  `high_watermark` is exclusive, -1 until the epoch has committed."""

    cluster_id: str | None
    """None if no node told it."""
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...] = ()
    endpoints: Mapping[int, Endpoints] = attrs.field(factory=dict)
    """Listeners by node id, as far as the leader knows them: from kraft.version 1 on, those of the voters."""
    committed_voters: tuple[ReplicaState, ...] = ()
    """The newest committed set while a newer one, in `voters`, has not committed; empty otherwise."""
    target_voters: tuple[ReplicaState, ...] = ()
    """The voters to which the leader is reassigning the quorum (KIP-642); empty otherwise."""
    reassignment_status: str | None = None
    """What the reassignment is doing or waiting for."""

    def voter(self, key: ReplicaKey) -> ReplicaState | None:
        """The state of exactly that replica, or None if it is not a voter."""
        return next((state for state in self.voters if state.key == key), None)

    def voter_of_id(self, replica_id: int) -> ReplicaState | None:
        """The voter with that id and any directory id."""
        return next((state for state in self.voters if state.key.id == replica_id), None)

    def endpoints_of(self, key: ReplicaKey) -> Endpoints | None:
        """The listeners of exactly that replica, or None if they are unknown."""
        if self.voter(key) is not None:
            return self.endpoints.get(key.id)
        return next((state.listeners or None for state in self.observers if state.key == key), None)

    def observers_of_id(self, replica_id: int) -> tuple[ReplicaState, ...]:
        """The observers with that id: incarnations of the replica that are not voters."""
        return tuple(state for state in self.observers if state.key.id == replica_id)

    @property
    def now_ms(self) -> int:
        """The time of the leader's clock in ms since 1970, or -1 if it is unknown."""
        if self.leader is not None:
            return self.leader.last_fetch_timestamp_ms
        return max((state.last_fetch_timestamp_ms for state in (*self.voters, *self.observers)), default=UNKNOWN)

    @property
    def leader(self) -> ReplicaState | None:
        """The leader's own state, or None if the leader does not list itself."""
        return next((state for state in (*self.voters, *self.observers) if state.key.id == self.leader_id), None)

    @property
    def leader_log_end_offset(self) -> int:
        """The leader's own log end offset (exclusive), or -1 if the leader does not list itself."""
        return UNKNOWN if self.leader is None else self.leader.log_end_offset

    def lag(self, replica: ReplicaState) -> int:
        """The number of offsets by which a replica is behind the leader, or -1 if either end is unknown."""
        if UNKNOWN in (self.leader_log_end_offset, replica.log_end_offset):
            return UNKNOWN
        return self.leader_log_end_offset - replica.log_end_offset

    def max_follower_lag(self) -> int:
        """The largest lag of a voter.  A voter that never fetched lacks the whole log.  -1 if the lag is unknown."""
        if self.leader_log_end_offset == UNKNOWN:
            return UNKNOWN
        return max((self._lag_or_all(voter) for voter in self.voters), default=UNKNOWN)

    def max_follower_lag_time_ms(self) -> int:
        """Time since the voter with the largest lag was caught up, or -1 if it never was."""
        leader = self.leader
        if leader is None or not self.voters:
            return UNKNOWN
        furthest = max(self.voters, key=self._lag_or_all)
        if furthest is leader:
            return 0
        if UNKNOWN in (leader.last_caught_up_timestamp_ms, furthest.last_caught_up_timestamp_ms):
            return UNKNOWN
        return leader.last_caught_up_timestamp_ms - furthest.last_caught_up_timestamp_ms

    def _lag_or_all(self, replica: ReplicaState) -> int:
        return self.leader_log_end_offset - max(replica.log_end_offset, 0)


@attrs.frozen
class NodeView:
    """One node's answer to the question who leads."""

    endpoint: Endpoint
    problem: str | None
    """Why it could not be asked; None where it answered."""
    leader_id: int | None = None
    leader_epoch: int | None = None
    """The epoch it is in, None where it does not say."""

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.endpoint}: {self.problem}"
        epoch = "" if self.leader_epoch is None else f" in epoch {self.leader_epoch}"
        leader = "knows no leader" if self.leader_id is None else f"names node {self.leader_id} as leader"
        return f"{self.endpoint}: {leader}{epoch}"


@attrs.frozen
class NoLeader:
    """No node answered as leader; `views` has each node's answer."""

    cluster_id: str | None
    views: tuple[NodeView, ...]

    @property
    def reachable(self) -> int:
        """How many nodes answered at all."""
        return sum(view.problem is None for view in self.views)


@attrs.frozen
class FeatureLevels:
    """The supported and finalized levels of one feature; 0 means never finalized."""

    name: str
    supported: VersionRange
    finalized: int


@attrs.frozen
class FeatureMetadata:
    """All features, by name.  `epoch` is the leader epoch of the finalized levels, or None if the node does not say."""

    features: tuple[FeatureLevels, ...]
    epoch: int | None


def silent_ms_of(quorum: QuorumDescription, state: ReplicaState) -> int:
    """The time from the replica's last Fetch to the leader's answer, by the leader's clock.  0 without a Fetch."""
    is_known = state is not quorum.leader and state.last_fetch_timestamp_ms != UNKNOWN
    return quorum.now_ms - state.last_fetch_timestamp_ms if is_known else 0


def health_of(quorum: QuorumDescription, state: ReplicaState, fetch_timeout_ms: int) -> ReplicaHealth:
    """How well the replica with that state keeps up with the leader, judged by the timestamps of KIP-836."""
    if state is quorum.leader:
        return ReplicaHealth(Health.UP)
    if state.last_fetch_timestamp_ms == UNKNOWN:
        return ReplicaHealth(Health.OFFLINE, f"has not fetched in epoch {quorum.leader_epoch}")
    silent_ms = silent_ms_of(quorum, state)
    if silent_ms > fetch_timeout_ms:
        return ReplicaHealth(Health.OFFLINE, f"has not fetched for {silent_ms / 1000:.1f} s")
    behind = f"is {quorum.lag(state)} offsets behind"
    if state.last_caught_up_timestamp_ms == UNKNOWN:
        return ReplicaHealth(Health.LAGGING, f"{behind}, and was never caught up in epoch {quorum.leader_epoch}")
    behind_ms = quorum.now_ms - state.last_caught_up_timestamp_ms
    if behind_ms > fetch_timeout_ms:
        return ReplicaHealth(Health.LAGGING, f"{behind}, and was last caught up {behind_ms / 1000:.1f} s ago")
    return ReplicaHealth(Health.UP)
