"""A snapshot of Kafka's metadata at any moment: the newest one and the log behind it, up to the high watermark."""

from __future__ import annotations

from contextlib import closing

import pytest

from kraft_trio.client import metadata_tail
from kraft_trio.client.snapshot_saver import SavedSnapshot, SnapshotSaver
from kraft_trio.errors import StorageError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.batches.batch import decode_records, peek_header
from kraft_trio.storage.snapshots.snapshot_reader import open_snapshot
from kraft_trio.wire.metadata_schemas import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from tests.support.kafka_leader import as_kafka
from tests.support.metadata_records import NO_OP, change, metadata_record, register
from tests.support.on_cluster import on_cluster

SETTINGS = {
    "metadata.log.max.snapshot.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": str(2**40),
    "metadata.log.segment.bytes": "1024",
    "metadata.max.retention.bytes": "0",
}
BACKUP = "/backup"
BEGIN, END = metadata_record(BeginTransactionRecord()), metadata_record(EndTransactionRecord())
ABORT = metadata_record(AbortTransactionRecord())


def saver_of(cluster: Cluster) -> SnapshotSaver:
    bootstrap = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    return SnapshotSaver(bootstrap, request_timeout_ms=1000, network=cluster.network.seen_from("client-saver"))


def backup_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(BACKUP)
    return disk


def values_of(disk: SimulatedDisk, saved: SavedSnapshot) -> list[bytes | None]:
    with closing(open_snapshot(disk, saved.path, saved.summary.snapshot_id)) as batches:
        data = [bytes(batch.data) for batch in batches if not batch.header.is_control]
    return [record.value for one in data for record in decode_records(one, 0, peek_header(one))]


@on_cluster(voters=1, state_machine=lambda _: RememberedValues(), settings=SETTINGS)
async def test_it_ends_at_the_high_watermark(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    disk, saver = backup_disk(), saver_of(cluster)

    async def save(node: Node) -> tuple[list[bytes | None], int]:
        saved = await saver.save(disk, BACKUP)
        assert saved.summary.snapshot_id.epoch == node.view.epoch
        assert saved.summary.control_state.voters == node.log.voters.voters
        assert saved.summary.control_state.kraft_version == 1
        assert not [name for name in disk.list_directory(BACKUP) if name.endswith(".part")]
        return values_of(disk, saved), saved.summary.snapshot_id.offset

    await leader.append([register(10), NO_OP])
    assert await save(leader) == ([register(10)], leader.log.high_watermark)

    await leader.append([register(11), *[NO_OP] * 400])
    base = await leader.take_snapshot()
    assert base is not None
    await leader.append([change(10, -1), NO_OP])
    values, end = await save(leader)
    assert values == [register(10), NO_OP, register(11), *[NO_OP] * 400, change(10, -1)], "the base as it is"
    assert end == leader.log.high_watermark
    with pytest.raises(StorageError, match=f"{BACKUP}/0.*: already exists and is not overwritten"):
        await save(leader)


@on_cluster(voters=1, settings=SETTINGS)
async def test_it_has_what_transactions_left(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    disk, saver = backup_disk(), saver_of(cluster)
    await leader.append([BEGIN, register(10)])
    await leader.append([register(11)])
    begun = await saver.save(disk, BACKUP, "begun")
    assert values_of(disk, begun) == []
    assert begun.summary.snapshot_id.offset == leader.log.high_watermark - 3
    await leader.append([END])
    await leader.append([BEGIN, register(12), ABORT])
    assert values_of(disk, await saver.save(disk, BACKUP, "ended")) == [register(10), register(11)]


@on_cluster(voters=1, settings=SETTINGS)
async def test_log_is_read_so_far_and_no_further(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved then is older than the newest records, and whole."""
    monkeypatch.setattr(metadata_tail, "MAX_BYTES", 500)
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    for id in range(10, 40):
        await leader.append([register(id)])
    disk = backup_disk()
    saved = await saver_of(cluster).save(disk, BACKUP)
    values = values_of(disk, saved)
    assert values == [register(id) for id in range(10, 10 + len(values))]
    assert 0 < len(values) < 30


@on_cluster(voters=3, settings=SETTINGS)
async def test_the_next_leader_goes_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_tail, "PIECE_BYTES", 200)
    leader = await cluster.wait_for_leader()
    as_kafka(monkeypatch, leader)
    for id in range(10, 30):
        await leader.append([register(id)])
    await cluster.wait_until_alike()
    fetches = 0
    read = metadata_tail.committed_batches

    async def counted(*args: object, **more: object) -> object:
        nonlocal fetches
        fetches += 1
        if fetches == 5:
            cluster.machines[leader.key.id].kill()
        return await read(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_tail, "committed_batches", counted)
    disk = backup_disk()
    assert values_of(disk, await saver_of(cluster).save(disk, BACKUP)) == [register(id) for id in range(10, 30)]
