"""Which of its own snapshots a leader reads again, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
import trio.testing

from kraft_trio.actors.snapshots import snapshot_scrubber
from kraft_trio.actors.snapshots.snapshot_scrubber import RECHECK_S, SnapshotScrubber
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import DiskFile
from kraft_trio.storage.log.log import Log
from tests.storage.support import log_with_snapshot

REPLICAS = [ReplicaKey(2), ReplicaKey(3)]


async def test_what_two_replicas_doubt_is_found_damaged_once() -> None:
    """Another one of that id may then be written in its place, and must not be taken for the one that was read."""
    disk = SimulatedDisk()
    log, snapshot_id = await log_with_snapshot(disk)
    path = log.snapshots.path(snapshot_id)
    whole = disk.read_bytes(path)
    disk.damage(path, 100)

    told: list[OffsetAndEpoch] = []
    found: list[str] = []
    log.snapshots.when_corrupt(lambda: found.append(log.snapshots.corrupt[snapshot_id]))
    scrubber = SnapshotScrubber(log, told.append)
    for position in (len(whole) - 10, 0):
        for replica in REPLICAS:
            scrubber.given(replica, snapshot_id, position, 10, len(whole))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == [snapshot_id]
    [reason] = found
    assert reason.startswith(f"{path}: ")
    await log.close()


class Doubting:
    """A snapshot, a leader's doubts about it, and how many times it was read to the end."""

    def __init__(self, log: Log, snapshot_id: OffsetAndEpoch, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshot_id = snapshot_id
        self.scrubber = SnapshotScrubber(log, lambda _: None)
        self.reads = self.under_way = self.most_at_once = 0
        self._size = size
        read_batches = snapshot_scrubber.read_batches

        def counting(file: DiskFile, epoch: int) -> Iterator[object]:
            self.reads += 1
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
            yield from read_batches(file, epoch)
            self.under_way -= 1

        monkeypatch.setattr(snapshot_scrubber, "read_batches", counting)

    def raise_doubts(self, replica: ReplicaKey) -> None:
        """By the two requests of two bytes that it takes."""
        for position in (self._size - 2, 0):
            self.scrubber.given(replica, self.snapshot_id, position, 2, self._size)


async def test_tiny_requests_do_not_make_it_read_again_and_again(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, snapshot_id = await log_with_snapshot(disk := SimulatedDisk())
    doubting = Doubting(log, snapshot_id, len(disk.read_bytes(log.snapshots.path(snapshot_id))), monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(doubting.scrubber.run)
        for number in range(2_000):
            doubting.raise_doubts(ReplicaKey(number))
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert 2 <= doubting.reads <= 2_000 / RECHECK_S + 1
    assert doubting.most_at_once == 1
    await log.close()


async def test_a_doubt_that_comes_too_soon_is_not_lost(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, snapshot_id = await log_with_snapshot(disk := SimulatedDisk())
    path = log.snapshots.path(snapshot_id)
    doubting = Doubting(log, snapshot_id, len(disk.read_bytes(path)), monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(doubting.scrubber.run)
        doubting.raise_doubts(ReplicaKey(2))
        await trio.sleep(1)
        assert (doubting.reads, log.snapshots.corrupt) == (1, {})
        disk.damage(path, 100)
        doubting.raise_doubts(ReplicaKey(2))
        await trio.sleep(RECHECK_S)
        assert snapshot_id in log.snapshots.corrupt
        nursery.cancel_scope.cancel()
    await log.close()
