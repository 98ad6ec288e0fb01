"""What of a log and its snapshots goes: the rule, case by case, and what must hold after every step of any plan."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.segments.retention import RetentionLimits, SealedSegment, plan_retention
from kraft_trio.storage.snapshots.snapshots import SnapshotFile

Item = SealedSegment | SnapshotFile


def snapshot(offset: int, size: int = 10, written_ms: int = 1000) -> SnapshotFile:
    return SnapshotFile(OffsetAndEpoch(offset, 1), size, timestamp_ms=0, written_ms=written_ms)


def names(items: list[Item]) -> list[str]:
    return [
        f"log {i.base_offset}" if isinstance(i, SealedSegment) else f"snapshot {i.snapshot_id.offset}" for i in items
    ]


SEGMENTS = [SealedSegment(0, 10, 100), SealedSegment(10, 20, 100), SealedSegment(20, 30, 100)]
"""With an active segment of 50 bytes, 350 bytes of log."""


@pytest.mark.parametrize(
    ("snapshots", "max_bytes", "expected"),
    [
        ([], 0, []),
        ([snapshot(25)], 360, []),
        ([snapshot(25)], 359, ["log 0"]),
        ([snapshot(25)], 260, ["log 0"]),
        ([snapshot(25)], 0, ["log 0", "log 10"]),
        ([snapshot(20)], 0, ["log 0", "log 10"]),
        ([snapshot(19)], 0, ["log 0"]),
        ([snapshot(9)], 0, []),
        ([snapshot(35)], 0, ["log 0", "log 10", "log 20"]),
        ([snapshot(5), snapshot(25)], 369, ["snapshot 5"]),
        ([snapshot(5), snapshot(25)], 359, ["snapshot 5", "log 0"]),
        ([snapshot(10), snapshot(25)], 0, ["log 0", "snapshot 10", "log 10"]),
        ([snapshot(10), snapshot(12), snapshot(40)], 0, ["log 0", "snapshot 10", "snapshot 12", "log 10", "log 20"]),
        ([snapshot(25)], None, []),
    ],
)
def test_by_size(snapshots: list[SnapshotFile], max_bytes: int | None, expected: list[str]) -> None:
    plan = plan_retention(snapshots, SEGMENTS, 50, RetentionLimits(max_bytes, None), now_ms=10**9)
    assert names(plan) == expected


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [
        (2000, []),
        (2001, ["log 0", "snapshot 10"]),
        (2101, ["log 0", "snapshot 10", "log 10", "snapshot 25"]),
        (9999, ["log 0", "snapshot 10", "log 10", "snapshot 25", "log 20"]),
    ],
)
def test_by_age(now_ms: int, expected: list[str]) -> None:
    """What the oldest snapshot covers is at least as old as it is."""
    snapshots = [snapshot(10, written_ms=1000), snapshot(25, written_ms=1100), snapshot(30, written_ms=1200)]
    assert names(plan_retention(snapshots, SEGMENTS, 50, RetentionLimits(None, 1000), now_ms)) == expected


THREE = [snapshot(10), snapshot(12), snapshot(25)]


@pytest.mark.parametrize(
    ("snapshots", "spared", "expected"),
    [
        # Spared is the snapshot, and the log behind it; not the log before it, and not the newer ones but for the last.
        (THREE, {10}, ["log 0", "snapshot 12"]),
        (THREE, {12}, ["log 0", "snapshot 10"]),
        (THREE, {10, 12}, ["log 0"]),
        (THREE, {25}, ["log 0", "snapshot 10", "snapshot 12", "log 10"]),
        (THREE, {7}, ["log 0", "snapshot 10", "snapshot 12", "log 10"]),
        # No longer than until the log behind it is larger than the snapshot: from 10 on there are 250 bytes of it.
        ([snapshot(10, size=250), snapshot(25)], {10}, ["log 0"]),
        ([snapshot(10, size=249), snapshot(25)], {10}, ["log 0", "snapshot 10", "log 10"]),
    ],
)
def test_what_is_being_fetched_is_spared(snapshots: list[SnapshotFile], spared: set[int], expected: list[str]) -> None:
    ids = {OffsetAndEpoch(offset, 1) for offset in spared}
    kept = [snapshot(s.snapshot_id.offset, size=250) if snapshots is THREE else s for s in snapshots]
    plan = plan_retention(kept, SEGMENTS, 50, RetentionLimits(0, None), now_ms=10**9, spared=ids)
    assert names(plan) == expected


@pytest.mark.parametrize(("max_bytes", "expected"), [(250, ["log 0"]), (249, ["log 0", "snapshot 10", "log 10"])])
def test_a_small_snapshot_is_spared_while_the_log_is_small(max_bytes: int, expected: list[str]) -> None:
    snapshots = [snapshot(10), snapshot(25)]
    limits = RetentionLimits(max_bytes, -1)
    ids = {OffsetAndEpoch(10, 1)}
    assert names(plan_retention(snapshots, SEGMENTS, 50, limits, now_ms=10**9, spared=ids)) == expected


def test_by_age_too_what_is_being_fetched_is_spared() -> None:
    snapshots = [snapshot(offset, size=250, written_ms=offset) for offset in (10, 12, 25)]
    limits = RetentionLimits(None, 1000)
    ids = {OffsetAndEpoch(10, 1)}
    assert names(plan_retention(snapshots, SEGMENTS, 50, limits, now_ms=1012, spared=ids)) == ["log 0"]
    assert names(plan_retention(snapshots, SEGMENTS, 50, limits, now_ms=1013, spared=ids)) == ["log 0", "snapshot 12"]


@given(
    snapshots=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 50), st.integers(0, 100)), unique_by=lambda s: s[0]
    ),
    cuts=st.lists(st.integers(1, 59), unique=True),
    start=st.integers(0, 30),
    max_bytes=st.none() | st.integers(0, 600),
    max_age_ms=st.none() | st.integers(0, 100),
    spared=st.frozensets(st.integers(1, 60)),
)
def test_the_log_starts_at_a_snapshot_and_one_snapshot_stays(
    snapshots: list[tuple[int, int, int]],
    cuts: list[int],
    start: int,
    max_bytes: int | None,
    max_age_ms: int | None,
    spared: frozenset[int],
) -> None:
    files = [SnapshotFile(OffsetAndEpoch(o, 1), size, 0, time) for o, size, time in sorted(snapshots) if o >= start]
    if not files:
        start = 0
    offsets = sorted({start, *(cut for cut in cuts if cut > start), 60})
    sealed = [SealedSegment(a, b, (b - a) * 5) for a, b in pairwise(offsets)]
    plan = plan_retention(
        files, sealed, 20, RetentionLimits(max_bytes, max_age_ms), 100, {OffsetAndEpoch(o, 1) for o in spared}
    )
    size = 20 + sum(f.size_in_bytes for f in files) + sum(s.size_in_bytes for s in sealed)
    kept_files, kept_sealed = list(files), list(sealed)
    for drop in plan:
        assert (max_bytes is not None and size > max_bytes) or (
            max_age_ms is not None and 100 - kept_files[0].written_ms > max_age_ms
        )
        if isinstance(drop, SealedSegment):
            assert drop == kept_sealed.pop(0)
        else:
            passed_over = kept_files[: kept_files.index(drop)]
            assert {file.snapshot_id.offset for file in passed_over} <= spared
            kept_files.remove(drop)
            assert kept_files[-1] == files[-1], "the newest stays"
        size -= drop.size_in_bytes
        log_start_offset = kept_sealed[0].base_offset if kept_sealed else 60
        assert kept_files
        assert log_start_offset <= kept_files[0].snapshot_id.offset
    nothing_can_go = not kept_files or (
        len(kept_files) == 1 and not (kept_sealed and kept_sealed[0].next_offset <= kept_files[0].snapshot_id.offset)
    )
    within = (max_bytes is None or size <= max_bytes) and (
        max_age_ms is None or not kept_files or 100 - kept_files[0].written_ms <= max_age_ms
    )
    is_spared = any(file.snapshot_id.offset in spared for file in kept_files)
    assert within or nothing_can_go or is_spared
