"""A snapshot that is copied off a running quorum: whole or not at all, whatever happens to connections and leaders."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import pytest
import trio

from kraft_trio.client.snapshot_saver import SnapshotSaver
from kraft_trio.errors import CorruptSnapshotError, DiskFullError, KraftError, NetworkError, RefusedError, StorageError
from kraft_trio.node import Node
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.disk.partition_files import checkpoint_name
from tests.support.on_cluster import run_on_cluster

SETTINGS: Final = {
    "metadata.log.max.snapshot.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": str(2**40),
    "metadata.log.segment.bytes": "1024",
    "metadata.max.retention.bytes": "0",
}
BACKUP: Final = "/backup"
PIECE: Final = 300


def on_quorum(test: Callable[[Cluster], Awaitable[None]], *, voters: int = 3) -> None:
    run_on_cluster(test, Setup(voters=voters, state_machine=lambda _: RememberedValues(), settings=SETTINGS))


async def write(cluster: Cluster, count: int = 40) -> Node:
    leader = await cluster.wait_for_leader()
    await leader.append([b"%050d" % number for number in range(count)])
    await cluster.wait_until_alike()
    return leader


async def with_snapshots(cluster: Cluster) -> tuple[Node, OffsetAndEpoch]:
    """Every node has taken the same one; the leader and its id."""
    leader = await write(cluster)
    ids = {await node.take_snapshot() for node in cluster.nodes.values()}
    [snapshot_id] = ids
    assert snapshot_id is not None
    return leader, snapshot_id


def backup_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(BACKUP)
    return disk


def saver_for(cluster: Cluster) -> SnapshotSaver:
    bootstrap = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    return SnapshotSaver(bootstrap, request_timeout_ms=1000, network=cluster.network.seen_from("client-saver"))


def bytes_of(node: Node, cluster: Cluster, snapshot_id: OffsetAndEpoch) -> bytes:
    return cluster.machines[node.key.id].disk.read_bytes(node.log.snapshots.path(snapshot_id))


def test_it_is_the_leaders_newest_byte_for_byte() -> None:
    async def test(cluster: Cluster) -> None:
        leader, snapshot_id = await with_snapshots(cluster)
        disk, told = backup_disk(), list[tuple[int, int]]()
        save = partial(saver_for(cluster).save, disk, BACKUP, chunk_bytes=PIECE)
        saved = await save(progress=lambda position, size: told.append((position, size)))
        expected = bytes_of(leader, cluster, snapshot_id)
        assert saved.path == f"{BACKUP}/{checkpoint_name(snapshot_id)}"
        assert disk.read_bytes(saved.path) == expected
        assert (saved.cluster_id, saved.summary.snapshot_id, saved.summary.record_count) == (
            CLUSTER_ID,
            snapshot_id,
            40,
        )
        size = len(expected)
        assert told == [(min(position + PIECE, size), size) for position in range(0, size, PIECE)]
        assert len(told) > 5

        other = await save("mine")
        assert other.path == f"{BACKUP}/mine"
        assert disk.read_bytes(other.path) == expected
        with pytest.raises(StorageError, match="/backup/mine: already exists and is not overwritten"):
            await save("mine")
        assert sorted(disk.list_directory(BACKUP)) == sorted([checkpoint_name(snapshot_id), "mine"])

    on_quorum(test)


def test_it_fills_a_disk_to_its_last_byte_as_no_log_is_there() -> None:
    async def test(cluster: Cluster) -> None:
        leader, snapshot_id = await with_snapshots(cluster)
        expected = bytes_of(leader, cluster, snapshot_id)
        disk = backup_disk()
        disk.capacity = len(expected)
        saved = await saver_for(cluster).save(disk, BACKUP, chunk_bytes=PIECE)
        assert disk.read_bytes(saved.path) == expected
        full = backup_disk()
        full.capacity = len(expected) - 1
        with pytest.raises(DiskFullError, match="the snapshot cannot be written"):
            await saver_for(cluster).save(full, BACKUP, chunk_bytes=PIECE)
        assert full.list_directory(BACKUP) == []

    on_quorum(test)


def test_the_next_leader_goes_on_where_the_last_one_ended() -> None:
    async def test(cluster: Cluster) -> None:
        leader, snapshot_id = await with_snapshots(cluster)
        expected = bytes_of(leader, cluster, snapshot_id)
        disk, positions = backup_disk(), list[int]()

        def on_progress(position: int, _size: int) -> None:
            positions.append(position)
            if len(positions) == 3:
                cluster.machines[leader.key.id].kill()

        saved = await saver_for(cluster).save(disk, BACKUP, chunk_bytes=PIECE, progress=on_progress)
        assert disk.read_bytes(saved.path) == expected
        assert positions == sorted(set(positions)), "what had come was not fetched again"

    on_quorum(test)


def test_it_may_take_long_as_long_as_it_goes_on() -> None:
    """`timeout_ms` is for the time without a byte, not for all of it."""

    async def test(cluster: Cluster) -> None:
        leader, _ = await with_snapshots(cluster)
        for machine in cluster.machines.values():
            cluster.network.set_link(machine.host, "client-saver", latency=Latency.constant(0.25))
        disk, began_at_s, lost_at_s = backup_disk(), trio.current_time(), list[float]()

        def on_progress(_position: int, _size: int) -> None:
            if trio.current_time() - began_at_s > 7 and not lost_at_s:
                lost_at_s.append(trio.current_time())
                cluster.machines[leader.key.id].kill()

        saved = await saver_for(cluster).save(disk, BACKUP, timeout_ms=6000, chunk_bytes=100, progress=on_progress)
        assert lost_at_s
        assert disk.exists(saved.path)

    on_quorum(test)


def test_a_new_leader_without_the_snapshot_gives_its_newest() -> None:
    async def test(cluster: Cluster) -> None:
        leader, common = await with_snapshots(cluster)
        await write(cluster)
        newer = await leader.take_snapshot()
        assert newer is not None
        assert newer > common
        disk, positions = backup_disk(), list[int]()

        def on_progress(position: int, _size: int) -> None:
            positions.append(position)
            if len(positions) == 3:
                cluster.machines[leader.key.id].kill()

        saved = await saver_for(cluster).save(disk, BACKUP, chunk_bytes=PIECE, progress=on_progress)
        assert saved.summary.snapshot_id == common
        assert positions[:4] == [PIECE, 2 * PIECE, 3 * PIECE, PIECE]
        assert disk.list_directory(BACKUP) == [checkpoint_name(common)]

    on_quorum(test)


def test_without_a_snapshot_there_is_nothing_to_save() -> None:
    async def test(cluster: Cluster) -> None:
        await write(cluster)
        disk = backup_disk()
        with pytest.raises(RefusedError, match="the leader has no snapshot"):
            await saver_for(cluster).save(disk, BACKUP)
        assert disk.list_directory(BACKUP) == []

    on_quorum(test, voters=1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(errno.EISDIR, StorageError), (errno.ENAMETOOLONG, StorageError), (errno.ENOSPC, DiskFullError)],
)
def test_a_place_where_no_file_can_be_made(code: int, expected: type[KraftError]) -> None:
    """That is no disk which failed; a full one is told apart."""

    async def test(cluster: Cluster) -> None:
        await with_snapshots(cluster)
        disk = backup_disk()
        disk.fail("open", name="mine.part", code=code)
        with pytest.raises(expected, match="/backup/mine: the snapshot cannot be written: ") as caught:
            await saver_for(cluster).save(disk, BACKUP, "mine")
        assert type(caught.value) is expected
        assert disk.list_directory(BACKUP) == []

    on_quorum(test, voters=1)


def test_without_a_leader_it_gives_up_and_leaves_no_file() -> None:
    async def test(cluster: Cluster) -> None:
        await with_snapshots(cluster)
        disk = backup_disk()

        def on_progress(_position: int, _size: int) -> None:
            for machine in cluster.machines.values():
                machine.kill()

        began_at_s = trio.current_time()
        with pytest.raises(NetworkError, match="snapshot not saved: no leader: "):
            await saver_for(cluster).save(disk, BACKUP, timeout_ms=10_000, chunk_bytes=PIECE, progress=on_progress)
        assert 9 < trio.current_time() - began_at_s < 13
        assert disk.list_directory(BACKUP) == []

    on_quorum(test)


def test_what_comes_damaged_does_not_count() -> None:
    async def test(cluster: Cluster) -> None:
        leader, snapshot_id = await with_snapshots(cluster)
        path = leader.log.snapshots.path(snapshot_id)
        cluster.machines[leader.key.id].disk.damage(path, 500)
        disk = backup_disk()
        with pytest.raises(CorruptSnapshotError, match=r"/backup/backup\.1: .*CRC"):
            await saver_for(cluster).save(disk, BACKUP, "backup.1")
        assert disk.list_directory(BACKUP) == []

    on_quorum(test, voters=1)


def test_a_cancelled_one_leaves_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        await with_snapshots(cluster)
        disk = backup_disk()
        with trio.CancelScope() as scope:
            cancel: Callable[[int, int], Any] = lambda _position, _size: scope.cancel()  # noqa: E731
            await saver_for(cluster).save(disk, BACKUP, chunk_bytes=PIECE, progress=cancel)
        assert scope.cancelled_caught
        assert disk.list_directory(BACKUP) == []

    on_quorum(test, voters=1)
