"""Snapshots that rot after they were written, and disks without room for one: healed, or said and put off."""

from __future__ import annotations

import pytest

from kraft_trio.actors.snapshots.snapshot_fetch import FIRST_PAUSE_S
from kraft_trio.actors.snapshots.snapshot_taker import FULL_DISK_RETRY_S
from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps import disk
from kraft_trio.storage.disk.part_file import SPARED_BYTES
from tests.support.trimming import (
    Requests,
    append,
    content_of,
    on_trimming_cluster,
    trimmed,
    until_alike,
    values,
)


def damage(cluster: Cluster, node: Node, snapshot_id: OffsetAndEpoch) -> None:
    """Flip a bit in the middle of a node's snapshot."""
    machine = cluster.machines[node.key.id]
    content = content_of(cluster, node, snapshot_id)
    assert content is not None
    machine.damage(node.log.snapshots.path(snapshot_id), len(content) // 2, "a snapshot rots")


def beginnings(requests: Requests) -> int:
    """How often a download was begun."""
    return sum(request.position == 0 and request.max_bytes > 1 for request in requests.seen)


@on_trimming_cluster(observers=1, started=(1, 2, 3))
async def test_the_leader_takes_another_one_in_place_of_a_damaged_one(cluster: Cluster) -> None:
    """A replica that fetched it starts over.  It never replaces a log, and the leader writes another one once."""
    leader = await cluster.wait_for_leader()
    snapshot_id = await trimmed(leader)
    whole = content_of(cluster, leader, snapshot_id)
    damage(cluster, leader, snapshot_id)
    requests = Requests(cluster, 4)
    observer = await cluster.machines[4].start()
    assert observer is not None
    await until_alike(cluster)
    assert observer.log.snapshots.ids == (snapshot_id,)
    assert content_of(cluster, observer, snapshot_id) == content_of(cluster, leader, snapshot_id) == whole
    assert leader.log.snapshots.corrupt == {}
    assert beginnings(requests) <= 3


@on_trimming_cluster(observers=1, started=(1, 2, 3), settings={"metadata.max.retention.bytes": "-1"})
async def test_a_log_that_is_whole_needs_no_damaged_snapshot(cluster: Cluster) -> None:
    """A state machine that cannot be saved again: the observer is given the log from its start instead."""
    leader = await cluster.wait_for_leader()
    await append(leader, values(0, 10))
    snapshot_id = await leader.take_snapshot()
    assert snapshot_id is not None
    assert leader.log.log_start_offset == 0
    damage(cluster, leader, snapshot_id)
    await disk.full_disk(leader.key.id, SPARED_BYTES // 2).take(cluster)
    observer = await cluster.machines[4].start()
    assert observer is not None
    await until_alike(cluster)
    assert observer.log.snapshots.ids == ()
    assert list(leader.log.snapshots.corrupt) == [snapshot_id]


@on_trimming_cluster(observers=1, started=(1, 2, 3), settings={"metadata.max.retention.bytes": "35000"})
async def test_an_older_whole_one_is_given_instead(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await append(leader, *(values(number, 10) for number in range(0, 200, 10)))
    older = await leader.take_snapshot()
    assert older is not None
    await append(leader, values(200, 10))
    newer = await leader.take_snapshot()
    assert newer is not None
    assert leader.log.snapshots.ids == (older, newer)
    assert leader.log.log_start_offset > 0
    damage(cluster, leader, newer)
    await disk.full_disk(leader.key.id, SPARED_BYTES // 2).take(cluster)
    observer = await cluster.machines[4].start()
    assert observer is not None
    await cluster.wait_until(lambda: observer.log.snapshots.ids == (older,))
    await until_alike(cluster)


@on_trimming_cluster()
async def test_without_a_replacement_replicas_wait_and_stay_voters(cluster: Cluster) -> None:
    """No room for another one: it is not given out again and again, nothing is trimmed by it, and room heals it."""
    leader = await cluster.wait_for_leader()
    behind, up = cluster.others(leader)
    cluster.machines[behind.key.id].kill()
    snapshot_id = await trimmed(leader)
    await cluster.wait_until(lambda: up.log.end == leader.log.end)
    damage(cluster, leader, snapshot_id)
    full = disk.full_disk(leader.key.id, SPARED_BYTES // 2)
    await full.take(cluster)
    requests = Requests(cluster, behind.key.id)
    node = await cluster.machines[behind.key.id].start()
    assert node is not None
    await cluster.wait_until(lambda: bool(leader.log.snapshots.corrupt))
    begun = beginnings(requests)
    start = leader.log.log_start_offset
    await append(leader, values(200, 10), values(210, 10))
    assert beginnings(requests) - begun <= 1
    assert leader.log.log_start_offset == start
    assert isinstance(leader.view.role, Leader)
    await disk.free_disk(leader.key.id).take(cluster)
    await cluster.wait_until(lambda: not leader.log.snapshots.corrupt, within_s=2 * FULL_DISK_RETRY_S)
    await until_alike(cluster)


@on_trimming_cluster()
async def test_a_download_without_room_is_postponed_at_no_other_cost(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    behind, other = cluster.others(leader)
    machine = cluster.machines[behind.key.id]
    machine.kill()
    snapshot_id = await trimmed(leader)
    await disk.full_disk(machine.id, SPARED_BYTES // 2).take(cluster)
    requests = Requests(cluster, machine.id)
    node = await machine.start()
    assert node is not None
    await requests.until(1)
    cluster.machines[other.key.id].kill()
    began_at_s = cluster.now_s
    # Its contact with the leader is all that keeps that one leading.
    await cluster.wait_until(lambda: cluster.now_s > began_at_s + 20 * FIRST_PAUSE_S)
    assert beginnings(requests) <= 6, "each pause is twice as long as the one before"
    assert (leader.view.epoch, isinstance(leader.view.role, Leader), machine.failure) == (1, True, None)
    await disk.free_disk(machine.id).take(cluster)
    await cluster.wait_until(lambda: node.log.log_start_offset == snapshot_id.offset)
    await cluster.machines[other.key.id].start()
    await until_alike(cluster)


@on_trimming_cluster(settings={"metadata.log.max.record.bytes.between.snapshots": "2000"})
async def test_a_snapshot_without_room_is_taken_later(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    machine = cluster.machines[leader.key.id]
    await disk.full_disk(machine.id, SPARED_BYTES // 2).take(cluster)
    with pytest.raises(DiskFullError, match=r"checkpoint: the snapshot cannot be written: .* left to the log"):
        await trimmed(leader)
    assert leader.log.snapshots.ids == ()
    assert not [name for name in machine.disk.peek_names(machine.partition_path) if ".part" in name]
    await append(leader, values(200, 10), values(210, 10), values(220, 10))
    assert machine.failure is None
    await disk.free_disk(machine.id).take(cluster)
    await cluster.wait_until(lambda: bool(leader.log.snapshots.ids), within_s=2 * FULL_DISK_RETRY_S)
    await until_alike(cluster)


@pytest.mark.parametrize(("operation", "name"), [("append", ".part"), ("sync", ".part"), ("rename", ".checkpoint")])
@on_trimming_cluster(observers=1, started=(1, 2, 3))
async def test_a_download_that_the_disk_fails_ends_the_node(cluster: Cluster, operation: str, name: str) -> None:
    """Only for want of room is it tried again: a disk that has failed once is not to be trusted with a vote."""
    leader = await cluster.wait_for_leader()
    await trimmed(leader)
    requests = Requests(cluster, 4)
    machine = cluster.machines[4]
    await machine.start()
    machine.excuse("its disk fails")
    machine.disk.fail(operation, name=name)
    await requests.until(1)
    await machine.wait_until_ended()
    assert isinstance(machine.failure, StorageFailure)
    assert not isinstance(machine.failure, DiskFullError)
    await machine.start()
    await until_alike(cluster)
