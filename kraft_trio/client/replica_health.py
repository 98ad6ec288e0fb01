"""How well a replica keeps up with its leader, judged by the timestamps of KIP-836."""

from __future__ import annotations

from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription, ReplicaState
from kraft_trio.protocol.replica_health import Health, ReplicaHealth


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
