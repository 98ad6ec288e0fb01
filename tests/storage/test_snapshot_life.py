"""A log's life with snapshots, on the real disk and on the simulated one: the same files in the end, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_download import SnapshotDownload
from tests.storage.support import open_log, producer_batch, take_snapshot, values_of_snapshot, voters_batch

VOTERS = VoterSet([Voter(ReplicaKey(id)) for id in (1, 2)])


def opened(disk: Disk, directory: str) -> Log:
    return open_log(disk, directory, segment_bytes=2000)


async def lead(disk: Disk, directory: str) -> OffsetAndEpoch:
    """A leader's: it appends, takes snapshots and trims behind them; the id of the last."""
    log = opened(disk, directory)
    log.append_as_leader(voters_batch(VOTERS, kraft_version=1), 1)
    snapshot_id = None
    for number in range(200):
        log.append_as_leader(producer_batch(b"%0100d" % number, number), 1 + number // 50)
        if number % 40 == 39:
            await log.sync()
            log.advance_high_watermark(log.end_offset)
            snapshot_id = await take_snapshot(log, log.end_offset - 5)
            await log.trim(RetentionLimits(20_000, None))
            await log.remove_retired()
    assert snapshot_id is not None
    assert log.log_start_offset > 0
    await log.close()
    return snapshot_id


async def follow(disk: Disk, directory: str, leaders: Log, snapshot_id: OffsetAndEpoch) -> None:
    """A replica's that has nothing: the leader's snapshot, piece by piece, and the log behind it."""
    log = opened(disk, directory)
    file = leaders.snapshots.open(snapshot_id)
    async with SnapshotDownload(disk, directory, snapshot_id) as download:
        while not download.is_complete:
            await download.append(download.position, file.read_at(download.position, 1000), file.size())
        await download.finish()
    file.close()
    log.add_snapshot(snapshot_id)
    log.truncate_fully_to(snapshot_id)
    while log.end_offset < leaders.end_offset:
        log.append_as_follower(leaders.read(log.end_offset, 500))
    await log.sync()
    await log.close()


def files(disk: Disk, directory: str) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"{directory}/{name}") for name in disk.list_directory(directory)}


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimulatedDisk()


async def test_a_replica_that_had_nothing_has_what_the_leader_has(disk: Disk, tmp_path: Path) -> None:
    root = str(tmp_path) if isinstance(disk, RealDisk) else "/data"
    leader, follower = f"{root}/leader", f"{root}/follower"
    snapshot_id = await lead(disk, leader)
    leaders = opened(disk, leader)
    await follow(disk, follower, leaders, snapshot_id)
    theirs = opened(disk, follower)
    assert (theirs.log_start_offset, theirs.end, theirs.high_watermark) == (
        snapshot_id.offset,
        leaders.end,
        snapshot_id.offset,
    )
    assert (theirs.voters.voters, theirs.voters.kraft_version) == (VOTERS, 1)
    assert [(p.producer_id, p.batches[-1]) for p in theirs.producers] == [
        (p.producer_id, p.batches[-1]) for p in leaders.producers
    ]
    assert values_of_snapshot(theirs, snapshot_id) == values_of_snapshot(leaders, snapshot_id)
    # Each takes the next one for itself: the same bytes.
    for log in (leaders, theirs):
        log.advance_high_watermark(log.end_offset)
        assert await take_snapshot(log, log.end_offset) == leaders.end
    names = [log.snapshots.path(leaders.end) for log in (leaders, theirs)]
    assert disk.read_bytes(names[0]) == disk.read_bytes(names[1])
    for log in (leaders, theirs):
        await log.close()
        report = check_partition(disk, log.directory)
        assert [problem for problem in report.problems if "quorum-state: missing" not in problem] == []
    disk.close()


async def test_the_real_disk_has_the_files_that_the_simulated_one_has(tmp_path: Path) -> None:
    real, simulated = RealDisk(), SimulatedDisk()
    await lead(real, str(tmp_path))
    await lead(simulated, "/data")
    assert files(real, str(tmp_path)) == files(simulated, "/data")
    real.close()
