"""Rot that a read finds: the leader hands over and ends, and the next start is refused until it is mended."""

from __future__ import annotations

import pytest

from kraft_trio.errors import CorruptLogError, DamagedLogError
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import END_QUORUM_EPOCH
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster


@on_cluster(observers=1, started=(1, 2, 3))
async def test_leader_hands_over_ends_and_stays_down(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    for number in range(3):
        await leader.append([b"value %d" % number])
    machine = cluster.machines[leader.key.id]
    path = f"{machine.partition_path}/{0:020d}.log"
    content = machine.disk.peek(path) or b""
    at = content.index(b"value 1")
    machine.damage(path, at, "rot")
    # A replica that has nothing reads all of it.
    await cluster.machines[4].start()
    await machine.wait_until_ended()
    assert b"is damaged" in (machine.disk.durable_bytes(f"{machine.partition_path}/damaged") or b"")
    assert cluster.network.requests_sent[machine.host, END_QUORUM_EPOCH.key] > 0, "it handed over"
    await cluster.wait_for_leader()
    with pytest.raises(CorruptLogError, match=r"a read found damage: .* it is still there"):
        async with lone_node(cluster, machine.id):
            pytest.fail("it runs")
    mended = bytearray(machine.disk.peek(path) or b"")
    mended[at] = content[at]
    machine.disk.replace_now(path, bytes(mended))
    async with lone_node(cluster, machine.id) as node:
        assert node.log.end_offset >= 6
    assert not machine.disk.exists(f"{machine.partition_path}/damaged")


@on_cluster(voters=1)
async def test_what_it_ends_with_says_what_to_do(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    machine = cluster.machines[1]
    await machine.stop()
    path = f"{machine.partition_path}/{0:020d}.log"
    machine.disk.damage(path, (machine.disk.peek(path) or b"").index(b"value"))
    with pytest.raises(DamagedLogError, match=r"is damaged.*replace the disk") as raised:
        async with lone_node(cluster, 1) as node:
            node.log.read(3, 1000)
    assert raised.value.exit_code == 3
