"""A leader that knows of a replica of Apache Kafka refuses what would end it, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kraft_trio.actors.replica_progress import OBSERVER_FORGOTTEN_AFTER_S
from kraft_trio.errors import RefusedError
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.batch import NewRecord, encode_batch
from kraft_trio.storage.snapshot_writer import SnapshotWriter
from kraft_trio.wire.api import API_VERSIONS, FETCH_SNAPSHOT
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.storage.support import snapshot_state
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, RawClient, batch_of

ORDERS = {"kraft.topic.name": "orders"}
KAFKA, OURS = "apache-kafka-java", "kraft-trio"
KEYED = encode_batch([NewRecord(b"value", b"key")], timestamp_ms=0)
VALUE = batch_of(b"value")


def epoch_of(cluster: Cluster, node_id: int) -> int:
    node = cluster.machines[node_id].node
    assert node is not None
    return node.view.epoch


@asynccontextmanager
async def replica(cluster: Cluster, node_id: int, software: str = KAFKA) -> AsyncIterator[RawClient]:
    async with RawClient.connected(cluster, node_id) as client:
        await client.ask(API_VERSIONS, ApiVersionsRequest(software, "4.1.0"))
        yield client


async def fetches(cluster: Cluster, node_id: int, key: ReplicaKey = STRANGER, software: str = KAFKA) -> None:
    """Let a replica of that software fetch once."""
    async with replica(cluster, node_id, software) as client:
        await client.fetch(0, epoch=epoch_of(cluster, node_id), replica=key)


async def produced(cluster: Cluster, node_id: int, batch: bytes) -> ProducePartitionResponse:
    async with RawClient.connected(cluster, node_id) as client:
        return await client.produce(batch)


def refuses(answer: ProducePartitionResponse, reason: str) -> bool:
    return answer.error == ErrorCode.invalid_record and reason in (answer.error_message or "")


@on_cluster(settings=ORDERS, invariants=FORGED)
async def test_keys_are_refused_from_kafkas_first_fetch_until_it_is_forgotten(cluster: Cluster) -> None:
    leader = (await cluster.wait_for_leader()).key.id
    assert (await produced(cluster, leader, KEYED)).error == ErrorCode.none
    await fetches(cluster, leader, software=OURS)
    assert (await produced(cluster, leader, KEYED)).error == ErrorCode.none
    await fetches(cluster, leader)
    assert refuses(await produced(cluster, leader, KEYED), "record 0: it has a key, which ends replicas")
    assert (await produced(cluster, leader, VALUE)).error == ErrorCode.none
    await trio.sleep(OBSERVER_FORGOTTEN_AFTER_S + 1)
    assert (await produced(cluster, leader, KEYED)).error == ErrorCode.none


@on_cluster(settings=ORDERS, invariants=FORGED)
async def test_a_silent_voter_counts_until_it_runs_other_software(cluster: Cluster) -> None:
    leader = (await cluster.wait_for_leader()).key.id
    voter = next(id for id in cluster.voter_ids if id != leader)
    cluster.machines[voter].kill()
    await fetches(cluster, leader, cluster.key_of(voter))
    await trio.sleep(OBSERVER_FORGOTTEN_AFTER_S + 1)
    assert refuses(await produced(cluster, leader, KEYED), "it has a key")
    await cluster.machines[voter].start()
    await cluster.wait_until_alike()
    assert (await produced(cluster, leader, KEYED)).error == ErrorCode.none


@on_cluster(settings=ORDERS, invariants=FORGED)
async def test_a_follower_that_kafka_has_asked_knows_it_when_it_leads(cluster: Cluster) -> None:
    first = (await cluster.wait_for_leader()).key.id
    for node_id in cluster.voter_ids:
        if node_id != first:
            await fetches(cluster, node_id)
    cluster.machines[first].kill()
    second = (await cluster.wait_for_leader()).key.id
    assert second != first
    assert refuses(await produced(cluster, second, KEYED), "it has a key")


@on_cluster(invariants=FORGED)
async def test_controllers_read_none_but_their_own_records(cluster: Cluster) -> None:
    leader = (await cluster.wait_for_leader()).key.id
    assert (await produced(cluster, leader, VALUE)).error == ErrorCode.none
    await fetches(cluster, leader)
    assert refuses(await produced(cluster, leader, VALUE), "controllers of Apache Kafka replicate __cluster_metadata")


@pytest.mark.parametrize(
    ("setting", "keyed", "value"),
    [("readable", ErrorCode.invalid_record, ErrorCode.none), ("any", ErrorCode.none, ErrorCode.none)],
)
def test_the_setting_decides_alone(setting: str, keyed: ErrorCode, value: ErrorCode) -> None:
    @on_cluster(settings={"kraft.kafka.records": setting}, invariants=FORGED)
    async def run(cluster: Cluster) -> None:
        leader = (await cluster.wait_for_leader()).key.id
        for kafka_fetches in (False, True):
            if kafka_fetches:
                await fetches(cluster, leader)
            assert (await produced(cluster, leader, KEYED)).error == keyed
            assert (await produced(cluster, leader, VALUE)).error == value

    run()


@on_cluster(settings=ORDERS | {"kraft.kafka.records": "readable"})
async def test_own_appends_that_share_a_batch_are_refused_apart(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"a producer id first"])
    outcomes: dict[str, str] = {}

    async def append(name: str, *records: NewRecord) -> None:
        try:
            await leader.append(list(records))
            outcomes[name] = "appended"
        except RefusedError as error:
            outcomes[name] = str(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append, "alone", NewRecord(b"first, so that the others share a batch"))
        nursery.start_soon(append, "value", NewRecord(b"value"))
        nursery.start_soon(append, "key", NewRecord(b"value", b"key"))
        nursery.start_soon(append, "one time", NewRecord(b"a", timestamp_ms=7), NewRecord(b"b", timestamp_ms=7))
        nursery.start_soon(append, "two times", NewRecord(b"a", timestamp_ms=7), NewRecord(b"b", timestamp_ms=8))
        nursery.start_soon(append, "last", NewRecord(b"value"))
    reasons = {name: said for name, said in outcomes.items() if said != "appended"}
    assert sorted(outcomes) == ["alone", "key", "last", "one time", "two times", "value"]
    assert sorted(reasons) == ["key", "two times"]
    assert "it has a key" in reasons["key"]
    assert "1 ms after" in reasons["two times"]


@pytest.mark.parametrize(("key", "is_sent"), [(None, True), (b"key", False)], ids=["values", "keys"])
def test_a_snapshot_that_kafka_cannot_read_is_kept_from_it(key: bytes | None, is_sent: bool) -> None:
    @on_cluster(settings=ORDERS, invariants=FORGED)
    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()  # no voter needs the snapshot
        await leader.append([b"%05d" % number for number in range(50)])
        offset = leader.high_watermark
        assert offset is not None
        snapshot_id = leader.log.next_snapshot_id(offset)
        assert snapshot_id is not None
        disk = cluster.machines[leader.key.id].disk
        state = snapshot_state(leader.log, offset)
        async with SnapshotWriter(disk, leader.log.directory, snapshot_id, state, batch_bytes=300) as writer:
            await writer.append(NewRecord(b"%05d" % number, key if number == 30 else None) for number in range(50))
            await writer.finish()
        leader.log.add_snapshot(snapshot_id)
        await fetches(cluster, leader.key.id)
        size = leader.log.snapshots.file(snapshot_id).size_in_bytes
        got = await downloaded(cluster, leader.key.id, snapshot_id, STRANGER)
        assert got == size if is_sent else got < size
        ours = ReplicaKey(STRANGER.id + 1, STRANGER.directory_id)
        assert await downloaded(cluster, leader.key.id, snapshot_id, ours) == size

    run()


async def downloaded(cluster: Cluster, node_id: int, snapshot_id: OffsetAndEpoch, reader: ReplicaKey) -> int:
    """How many bytes a replica gets before it is refused, or has the whole snapshot."""
    got = 0
    async with replica(cluster, node_id) as client:
        while True:
            epoch = epoch_of(cluster, node_id)
            asked = FetchSnapshotRequest(
                CLUSTER_ID, reader.id, 200, ORDERS["kraft.topic.name"], 0, epoch, snapshot_id, got, reader.directory_id
            )
            piece = await client.ask(FETCH_SNAPSHOT, asked)
            if piece.partition_error != ErrorCode.none:
                assert piece.partition_error == ErrorCode.snapshot_not_found
                return got
            got += len(piece.unaligned_records)
            if got == piece.size:
                return got
