"""What of a log and its snapshots is kept, and what goes: decided here, done by the log (KIP-630 "When to Delete").

The rule, in one sentence: while the files take more than `max_bytes`, or the oldest snapshot is older than
`max_age_ms`, the oldest segment goes that the oldest snapshot covers; where there is none, the oldest snapshot, unless
it is the last.

So the log always begins at or below the end of the oldest snapshot, and a replica that is behind finds the longest log
that there is room for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from kraft_trio.storage.snapshots import SnapshotFile


@attrs.frozen
class RetentionLimits:
    """`metadata.max.retention.bytes` and `.ms`; None for no limit."""

    max_bytes: int | None
    """Of segments and snapshots together."""
    max_age_ms: int | None
    """Of the last record that a snapshot covers."""


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
) -> list[SealedSegment | SnapshotFile]:
    """What goes, in that order; snapshots and segments are given oldest first.  Without a snapshot nothing does.

    Each step leaves a log that begins at or below the end of the oldest snapshot.
    """
    kept_snapshots, kept_segments = deque(snapshots), deque(sealed)
    size = active_bytes + sum(file.size_in_bytes for file in snapshots) + sum(part.size_in_bytes for part in sealed)
    drops: list[SealedSegment | SnapshotFile] = []
    while kept_snapshots:
        oldest = kept_snapshots[0]
        too_large = limits.max_bytes is not None and size > limits.max_bytes
        too_old = limits.max_age_ms is not None and now_ms - oldest.timestamp_ms > limits.max_age_ms
        drop: SealedSegment | SnapshotFile
        if not too_large and not too_old:
            break
        if kept_segments and kept_segments[0].next_offset <= oldest.snapshot_id.offset:
            drop = kept_segments.popleft()
        elif len(kept_snapshots) > 1:
            drop = kept_snapshots.popleft()
        else:
            break
        size -= drop.size_in_bytes
        drops.append(drop)
    return drops
