"""Which snapshots are being fetched, as far as their leader can know."""

from __future__ import annotations

from uuid import UUID

from kraft_trio.protocol.snapshot_downloads import MAX_DOWNLOADS, SnapshotDownloads
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey

A, B = ReplicaKey(4, UUID(int=4)), ReplicaKey(5, UUID(int=5))
OLD, NEW = OffsetAndEpoch(10, 1), OffsetAndEpoch(20, 1)


def never(since_s: float) -> bool:
    return False


def test_one_request_per_split_is_in_flight_while_the_asker_says() -> None:
    downloads = SnapshotDownloads()
    assert downloads.under_way(0) == frozenset()
    downloads.piece_given(A, OLD, now_s=1)
    downloads.piece_given(B, NEW, now_s=2)
    assert downloads.under_way(1) == {OLD, NEW}
    assert downloads.under_way(1.5) == {NEW}
    downloads.piece_given(A, OLD, now_s=3)
    assert downloads.under_way(2.5) == {OLD}
    assert downloads.under_way(3.5) == frozenset()


def test_a_replica_with_it_needs_the_log_behind_it_to_catch_up() -> None:
    downloads = SnapshotDownloads()
    downloads.piece_given(A, OLD, now_s=1)
    asked: list[float] = []
    downloads.fetched(A, lambda since_s: asked.append(since_s) is not None, now_s=5)
    assert asked == [1], "what it had caught up with before the last piece says nothing"
    assert downloads.under_way(4) == {OLD}
    downloads.fetched(A, never, now_s=6)
    assert downloads.under_way(6) == {OLD}
    downloads.fetched(A, lambda since_s: True, now_s=7)
    assert downloads.under_way(0) == frozenset()


def test_another_replicas_fetch_ends_nothing() -> None:
    downloads = SnapshotDownloads()
    downloads.piece_given(A, OLD, now_s=1)
    downloads.piece_given(None, NEW, now_s=1)
    downloads.fetched(B, lambda since_s: True, now_s=2)
    assert downloads.under_way(0) == {OLD, NEW}
    downloads.fetched(A, lambda since_s: True, now_s=2)
    assert downloads.under_way(0) == {NEW}
    downloads.clear()
    assert downloads.under_way(0) == frozenset()


def test_of_too_many_the_least_recently_heard_is_forgotten() -> None:
    downloads = SnapshotDownloads()
    for number in range(MAX_DOWNLOADS):
        downloads.piece_given(A, OffsetAndEpoch(number, 1), now_s=number)
    downloads.piece_given(A, OffsetAndEpoch(0, 1), now_s=MAX_DOWNLOADS)
    downloads.piece_given(B, OffsetAndEpoch(MAX_DOWNLOADS, 1), now_s=MAX_DOWNLOADS)
    under_way = downloads.under_way(0)
    assert len(under_way) == MAX_DOWNLOADS
    assert OffsetAndEpoch(0, 1) in under_way
    assert OffsetAndEpoch(1, 1) not in under_way
