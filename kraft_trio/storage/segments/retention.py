"""Decides which segments and snapshots a trim deletes (KIP-630, "When to Delete Snapshots").

A trim is due while the files exceed `max_bytes`, or while the oldest snapshot is older than `max_age_ms`.  It deletes
the oldest segment that the oldest snapshot covers.  If no segment is covered, it deletes the oldest snapshot, but never
the last one.  So the log always starts at or below the end of the oldest snapshot.

A snapshot that a replica is fetching is spared, together with the log behind it.  Newer snapshots, except the newest,
are deleted instead.  Otherwise a slow replica of a large state would start over with each newer snapshot.

The protection ends when the log behind the snapshot exceeds both the snapshot and `max_bytes`: a replica that receives
more slowly than the leader appends cannot catch up anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.snapshots.snapshots import SnapshotFile


@attrs.frozen
class RetentionLimits:
    """`metadata.max.retention.bytes` and `.ms`; None for no limit."""

    max_bytes: int | None
    """The limit for segments and snapshots together."""
    max_age_ms: int | None
    """The limit for the time since a snapshot was written here."""


@attrs.frozen
class SealedSegment:
    """A segment before the active one: complete and synced."""

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
    """Return what to delete, in order.  `snapshots` and `sealed` are oldest first; `spared` are being fetched.

    After each step the log starts at or below the end of the oldest snapshot.  Without a snapshot nothing is deleted.
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
