"""What a node tells of the state that a read without a barrier sees."""

from __future__ import annotations

import trio

from kraft_trio import Staleness
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.state_machine import RememberedValues
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster, run_on_cluster

FETCH_WAIT_MS = 500
"""A leader answers a parked fetch after so long, which is a quarter of the fetch timeout."""


@on_cluster(observers=1)
async def test_all_nodes_of_a_healthy_quorum_have_just_heard(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    [offset] = await leader.append([b"value"])
    await cluster.wait_until_alike()
    await trio.sleep(60)
    for node in cluster.nodes.values():
        assert node.stale.offset == offset + 1
        assert node.stale.age_ms is not None
        assert node.stale.age_ms <= FETCH_WAIT_MS + 100


@on_cluster()
async def test_the_age_grows_while_a_node_is_cut_off(cluster: Cluster) -> None:
    """Also for a leader that has lost its followers, and when it leads no longer."""
    leader = await cluster.wait_for_leader()
    follower = cluster.others(leader)[0]
    await cluster.wait_until_alike()
    for node in (leader, follower):
        cluster.partition([node.key.id], [id for id in cluster.machines if id != node.key.id], silent=True)
        began = cluster.now_s
        await trio.sleep(20)
        assert node.stale.age_ms is not None
        assert 0 <= node.stale.age_ms - (cluster.now_s - began) * 1000 <= FETCH_WAIT_MS + 100
        cluster.heal()
        await trio.sleep(10)
        assert node.stale.age_ms <= FETCH_WAIT_MS + 100


@on_cluster()
async def test_a_node_that_has_heard_from_nobody_does_not_know(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for machine in cluster.machines.values():
        await machine.stop()
    async with lone_node(cluster, 1) as node:
        await trio.sleep(10)
        assert node.stale.age_ms is None


def test_the_offset_is_that_of_the_application() -> None:
    may_go_on = trio.Event()

    class HeldBack(RememberedValues):
        async def on_commit(self, records) -> None:  # type: ignore[no-untyped-def]
            await may_go_on.wait()
            await super().on_commit(records)

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        [offset] = await node.append([b"value"])
        assert node.stale == Staleness(offset, 0)
        may_go_on.set()
        await node.wait_until_applied(offset)
        assert node.stale == Staleness(offset + 1, 0)

    run_on_cluster(test, Setup(voters=1, state_machine=lambda _: HeldBack()))
