"""How a replica keeps up with its leader, judged by the timestamps of KIP-836."""

from __future__ import annotations

import enum

import attrs

from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription, ReplicaState


class Standing(enum.Enum):
    """Only a replica that is UP takes part in the next commit."""

    UP = "up"
    LAGGING = "lagging"
    """It fetches, but has lately not held all that the leader had."""
    OFFLINE = "offline"
    """It has not fetched lately."""


@attrs.frozen
class Keeping:
    """A replica's standing, with the reason in words."""

    standing: Standing
    reason: str = ""

    @property
    def is_up(self) -> bool:
        return self.standing is Standing.UP


def keeping_of(quorum: QuorumDescription, state: ReplicaState, patience_ms: int) -> Keeping:
    """How `state` keeps up; `patience_ms`, the fetch timeout, is what counts as lately."""
    if state is quorum.leader:
        return Keeping(Standing.UP)
    if state.last_fetch_timestamp_ms == UNKNOWN:
        return Keeping(Standing.OFFLINE, f"has not fetched in epoch {quorum.leader_epoch}")
    silent_ms = quorum.now_ms - state.last_fetch_timestamp_ms
    if silent_ms > patience_ms:
        return Keeping(Standing.OFFLINE, f"has not fetched for {silent_ms / 1000:.1f} s")
    behind = f"is {quorum.lag(state)} offsets behind"
    if state.last_caught_up_timestamp_ms == UNKNOWN:
        return Keeping(Standing.LAGGING, f"{behind}, and was never caught up in epoch {quorum.leader_epoch}")
    behind_ms = quorum.now_ms - state.last_caught_up_timestamp_ms
    if behind_ms > patience_ms:
        return Keeping(Standing.LAGGING, f"{behind}, and was last caught up {behind_ms / 1000:.1f} s ago")
    return Keeping(Standing.UP)
