"""What of a log and its snapshots is kept, and what goes: decided here, done by the log (KIP-630 "When to Delete").

The rule, in one sentence: while the files take more than `max_bytes`, or the oldest snapshot is older than
`max_age_ms`, the oldest segment goes that the oldest snapshot covers; where there is none, the oldest snapshot, unless
it is the last.

So the log always begins at or below the end of the oldest snapshot, and a replica that is behind finds the longest log
that there is room for.

A snapshot that somebody is fetching is spared, and with it the log behind it; the newer ones but for the newest go in
its stead.  Else a slow replica of a large state would begin anew with each snapshot that is taken meanwhile, and never
finish.  It is spared no longer than until the log behind it has become larger than both the snapshot and `max_bytes`:
whoever receives more slowly than is appended would not catch up with its help either.  So what sparing costs is at most
one more snapshot, and that much of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.snapshots import SnapshotFile


@attrs.frozen
class RetentionLimits:
    """`metadata.max.retention.bytes` and `.ms`; None for no limit."""

    max_bytes: int | None
    """Of segments and snapshots together."""
    max_age_ms: int | None
    """Since a snapshot was written here."""


@attrs.frozen
class SealedSegment:
    """A segment that nothing is appended to any more."""

    base_offset: int
    """Inclusive."""
    next_offset: int
    """Exclusive end: where the next segment begins."""
    size_in_bytes: int


def plan_retention(
    snapshots: Sequence[SnapshotFile],
    sealed: Sequence[SealedSegment],
    active_bytes: int,
    limits: RetentionLimits,
    now_ms: int,
    spared: Collection[OffsetAndEpoch] = (),
) -> list[SealedSegment | SnapshotFile]:
    """What goes, in that order; snapshots and segments are given oldest first.  Without a snapshot nothing does.

    `spared` are the snapshots that are being fetched.  Each step leaves a log that begins at or below the end of the
    oldest snapshot.
    """
    kept_snapshots, kept_segments = list(snapshots), deque(sealed)
    size = active_bytes + sum(file.size_in_bytes for file in snapshots) + sum(part.size_in_bytes for part in sealed)
    drops: list[SealedSegment | SnapshotFile] = []

    def is_due(file: SnapshotFile) -> bool:
        too_large = limits.max_bytes is not None and size > limits.max_bytes
        too_old = limits.max_age_ms is not None and now_ms - file.written_ms > limits.max_age_ms
        return too_large or too_old

    def is_spared(file: SnapshotFile) -> bool:
        behind = active_bytes + sum(part.size_in_bytes for part in sealed if part.next_offset > file.snapshot_id.offset)
        return file.snapshot_id in spared and behind <= max(file.size_in_bytes, limits.max_bytes or 0)

    while kept_snapshots and is_due(oldest := kept_snapshots[0]):
        drop: SealedSegment | SnapshotFile
        if kept_segments and kept_segments[0].next_offset <= oldest.snapshot_id.offset:
            drop = kept_segments.popleft()
        else:
            can_go = next((file for file in kept_snapshots[:-1] if not is_spared(file)), None)
            if can_go is None or not is_due(can_go):
                break
            kept_snapshots.remove(can_go)
            drop = can_go
        size -= drop.size_in_bytes
        drops.append(drop)
    return drops
