"""Computes the leader's high watermark (KIP-595 "High watermark", KIP-853 "High watermark")."""

from __future__ import annotations

from collections.abc import Mapping

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet


def next_high_watermark(
    voters: VoterSet,
    synced_end_offsets: Mapping[ReplicaKey, int],
    leader: ReplicaKey,
    epoch_start_offset: int,
    current: int | None,
) -> int | None:
    """The leader's high watermark (exclusive), or None while it is unknown.

    `voters` is the newest set of the log, committed or not; `synced_end_offsets` says how far (exclusive) each replica
    has synced its log, the leader's own entry included.  A leader outside the set and another incarnation of a voter
    do not count (invariants CommitByMajority and DeadIncarnations).  The majority's offset counts only above
    `epoch_start_offset`, when a majority has a record of this epoch (invariant HighWatermarkOfTheEpoch).  The result
    is never below `current` (invariant HighWatermarkNeverFalls).
    """
    if not len(voters):
        return current
    leads_from_outside = not voters.is_voter(leader)
    descending = sorted(
        (
            0 if leads_from_outside and voter.id == leader.id else _synced_by(voter, synced_end_offsets)
            for voter in voters
        ),
        reverse=True,
    )
    on_majority = descending[voters.majority - 1]
    if on_majority <= epoch_start_offset or (current is not None and on_majority <= current):
        return current
    return on_majority


def _synced_by(voter: Voter, synced_end_offsets: Mapping[ReplicaKey, int]) -> int:
    """The synced end offset of a voter; the lowest if a static voter may be one of several incarnations."""
    offset = synced_end_offsets.get(voter.key)
    if offset is None and voter.key.directory_id == NO_DIRECTORY_ID:
        offset = min((offset for key, offset in synced_end_offsets.items() if key.id == voter.id), default=None)
    return 0 if offset is None else offset
