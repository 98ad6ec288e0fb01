"""Which of its own snapshots a leader reads again, and what it says of them."""

from __future__ import annotations

import trio
import trio.testing

from kraft_trio.actors.snapshot_doubts import SnapshotDoubts
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.simulated_disk import SimulatedDisk
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
    log.snapshots.when_unfit(lambda: found.append(log.snapshots.unfit[snapshot_id]))
    doubts = SnapshotDoubts(log, told.append)
    for position in (len(whole) - 10, 0):
        for replica in REPLICAS:
            doubts.given(replica, snapshot_id, position, 10, len(whole))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(doubts.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == [snapshot_id]
    [reason] = found
    assert reason.startswith(f"{path}: ")
    await log.close()
