"""How well a replica keeps up with its leader, judged by the timestamps of KIP-836."""

from __future__ import annotations

import enum

import attrs

from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription, ReplicaState


class Health(enum.Enum):
    """Only a replica that is UP takes part in the next commit."""

    UP = "up"
    LAGGING = "lagging"
    """The replica fetches, but has not held the leader's whole log for longer than the fetch timeout."""
    OFFLINE = "offline"
    """The replica has not fetched for longer than the fetch timeout."""


@attrs.frozen
class ReplicaHealth:
    """The health of one replica, and the reason in words."""

    status: Health
    reason: str = ""

    @property
    def is_up(self) -> bool:
        return self.status is Health.UP


def health_of(quorum: QuorumDescription, state: ReplicaState, fetch_timeout_ms: int) -> ReplicaHealth:
    """The health of the replica with that state."""
    if state is quorum.leader:
        return ReplicaHealth(Health.UP)
    if state.last_fetch_timestamp_ms == UNKNOWN:
        return ReplicaHealth(Health.OFFLINE, f"has not fetched in epoch {quorum.leader_epoch}")
    silent_ms = quorum.now_ms - state.last_fetch_timestamp_ms
    if silent_ms > fetch_timeout_ms:
        return ReplicaHealth(Health.OFFLINE, f"has not fetched for {silent_ms / 1000:.1f} s")
    behind = f"is {quorum.lag(state)} offsets behind"
    if state.last_caught_up_timestamp_ms == UNKNOWN:
        return ReplicaHealth(Health.LAGGING, f"{behind}, and was never caught up in epoch {quorum.leader_epoch}")
    behind_ms = quorum.now_ms - state.last_caught_up_timestamp_ms
    if behind_ms > fetch_timeout_ms:
        return ReplicaHealth(Health.LAGGING, f"{behind}, and was last caught up {behind_ms / 1000:.1f} s ago")
    return ReplicaHealth(Health.UP)
