"""What a node says about its own snapshots, and the result of asking it to take one."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.errors import RefusedError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.wire.api import REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from tests.support.on_cluster import run_on_cluster
from tests.support.raw_client import RawClient

BY_HAND = {"metadata.log.max.snapshot.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": str(2**40)}


def with_machines(test: Any, **fields: Any) -> None:
    settings = {**BY_HAND, **fields.pop("settings", {})}
    run_on_cluster(test, Setup(state_machine=lambda _: RememberedValues(), settings=settings, **fields))


def client_of(cluster: Cluster) -> AdminClient:
    return AdminClient([cluster.endpoint_of(1)], network=cluster.network.seen_from("client-admin"))


def test_each_node_takes_its_own_in_whatever_role() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"%050d" % number for number in range(20)])
        await cluster.wait_until_alike()
        client = client_of(cluster)
        for node_id, node in cluster.nodes.items():
            endpoint = cluster.endpoint_of(node_id)
            told = await client.take_snapshot(endpoint, cluster_id=CLUSTER_ID)
            newest = node.log.snapshots.newest
            assert newest is not None
            assert newest.offset == node.log.end_offset
            [snapshot] = told.snapshots
            assert (snapshot.snapshot_id, snapshot.size_in_bytes) == (
                newest,
                node.log.snapshots.file(newest).size_in_bytes,
            )
            assert told.took_ms >= 0
            assert (told.key, told.endpoint, told.has_state_machine) == (node.key, endpoint, True)
            assert (told.log_start_offset, told.log_end) == (0, node.log.end)
            assert (told.log_size_in_bytes, told.high_watermark) == (node.log.size_in_bytes, node.high_watermark)
            again = await client.take_snapshot(endpoint)
            assert (again.snapshots, again.took_ms) == (told.snapshots, -1)
            assert await client.describe_snapshots(endpoint) == again

    with_machines(test)


def test_before_anything_has_committed_there_is_nothing_to_take() -> None:
    async def test(cluster: Cluster) -> None:
        with pytest.raises(RefusedError, match="SNAPSHOT_NOT_FOUND: nothing has been committed yet"):
            await client_of(cluster).take_snapshot(cluster.endpoint_of(1))

    with_machines(test)


def test_a_node_of_another_cluster_does_not_take_one() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        with pytest.raises(RefusedError, match=f"INCONSISTENT_CLUSTER_ID: this node is of cluster {CLUSTER_ID}"):
            await client_of(cluster).take_snapshot(cluster.endpoint_of(1), cluster_id="fMCL8kv1SWm87L_Md-I2hg")
        assert cluster.nodes[1].log.snapshots.newest is None

    with_machines(test, voters=1)


def test_a_node_without_a_state_machine_says_so() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        endpoint = cluster.endpoint_of(1)
        with pytest.raises(RefusedError) as caught:
            await client_of(cluster).take_snapshot(endpoint)
        assert str(caught.value) == (
            f"{endpoint}: INVALID_REQUEST: this node has no state machine, so that there is nothing to save and its "
            "log is kept whole: kraft.state.machine names one"
        )
        told = await client_of(cluster).describe_snapshots(endpoint)
        assert (told.has_state_machine, told.snapshots, told.log_start_offset) == (False, (), 0)

    run_on_cluster(test, Setup(voters=1))


def test_one_that_cannot_be_written_is_told_and_ends_the_node() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        machine = cluster.machines[1]
        machine.excuse("its disk fails")
        machine.disk.fail("append", name=".part")
        with pytest.raises(RefusedError, match=r"KAFKA_STORAGE_ERROR: .* the snapshot cannot be written: .*EIO"):
            await client_of(cluster).take_snapshot(cluster.endpoint_of(1))
        await machine.wait_until_ended()
        assert isinstance(machine.failure, StorageFailure)

    with_machines(test, voters=1)


def test_an_asker_who_does_not_wait_leaves_a_whole_one_or_none() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x" * 500] * 100)
        for wait_s in (0.0001, 0.001, 0.01):
            async with RawClient.connected(cluster, 1) as client:
                with trio.move_on_after(wait_s):
                    await client.connection.request(REPLICA_SNAPSHOTS, ReplicaSnapshotsRequest(take=True))
        told = await client_of(cluster).take_snapshot(cluster.endpoint_of(1))
        assert [snapshot.snapshot_id for snapshot in told.snapshots] == [
            OffsetAndEpoch(leader.log.end_offset, leader.view.epoch)
        ]

    with_machines(test, voters=1)


def test_one_that_is_damaged_is_not_counted() -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        client, endpoint = client_of(cluster), cluster.endpoint_of(1)
        [sound] = (await client.take_snapshot(endpoint)).snapshots
        leader.log.snapshots.corrupt[sound.snapshot_id] = "rotten"
        assert (await client.describe_snapshots(endpoint)).snapshots == ()

    with_machines(test, voters=1)
