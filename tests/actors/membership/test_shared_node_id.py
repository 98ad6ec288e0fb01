"""Two processes with one node id: the leader and the stray one both say so, and keep saying so."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from uuid import UUID

import attrs
import pytest
import structlog.testing
import trio

from kraft_trio.actors.context.shared_node_id import SAID_EVERY_S, SharedReplicas
from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.environment import Environment
from kraft_trio.errors import StorageError
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.directory import format_directory
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster

STRAY = "stray"


async def run_stray(cluster: Cluster, leader: Node, for_s: float, disk: SimulatedDisk | None = None) -> None:
    """Another process with the leader's node id, on a host and, without `disk`, in a directory of its own."""
    listeners = tuple(
        attrs.evolve(listener, endpoint=Endpoint(STRAY, listener.endpoint.port)) for listener in leader.config.listeners
    )
    config = attrs.evolve(leader.config, listeners=listeners, advertised_listeners=listeners)
    if disk is None:
        disk = SimulatedDisk(cluster.random(STRAY))
        format_directory(
            disk,
            config.metadata_log_dir,
            cluster_id=cluster.cluster_id,
            node_id=config.node_id,
            directory_id=UUID(int=12345, version=4),
            topic_name=config.topic_name,
            voters=None,
            kraft_version=1,
            timestamp_ms=0,
        )
    environment = Environment(
        network=cluster.network.seen_from(STRAY),
        disk=disk,
        random=cluster.random(STRAY),
        wall_clock_ms=leader.tree.environment.wall_clock_ms,
    )
    async with open_node(config, environment=environment):
        await trio.sleep(for_s)


def said(events: list[MutableMapping[str, Any]]) -> list[str]:
    return [event["reason"] for event in events if event["event"] == "two nodes share one id"]


@pytest.mark.parametrize("asks_leader_first", [True, False])
@on_cluster(voters=3)
async def test_both_sides_say_that_they_share_an_id(cluster: Cluster, asks_leader_first: bool) -> None:
    leader = await cluster.wait_for_leader()
    if not asks_leader_first:
        others = tuple(cluster.endpoint_of(id) for id in cluster.voter_ids if id != leader.key.id)
        leader.config = attrs.evolve(leader.config, quorum_bootstrap_servers=others)
    with structlog.testing.capture_logs() as events:
        await run_stray(cluster, leader, 1.5 * SAID_EVERY_S)
    reasons = said(events)
    by_leader = [reason for reason in reasons if "fetches from this node" in reason]
    by_stray = [reason for reason in reasons if "is another process" in reason]
    assert len(by_leader) == len(by_stray) == 2, reasons
    assert leader.view.epoch == 1


@on_cluster(voters=3)
async def test_the_twin_of_a_follower_says_that_they_share_an_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    with structlog.testing.capture_logs() as events:
        await run_stray(cluster, follower, 1.5 * SAID_EVERY_S)
    assert len(said(events)) == 2
    assert all("is another process that fetches from the leader" in reason for reason in said(events))


@on_cluster(voters=3, observers=1)
async def test_the_leader_says_that_two_observers_share_an_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    observer = cluster.machines[4].node
    assert observer is not None
    with structlog.testing.capture_logs() as events:
        await run_stray(cluster, observer, 1.5 * SAID_EVERY_S)
    told = [event for event in events if event["event"] == "two nodes share one id"]
    assert len(told) == 2
    for event in told:
        assert event["node_id"] == 4
        assert str(observer.key) in event["reason"]
        assert event["reason"].endswith("both fetch from this node, which leads")
    assert leader.view.epoch == 1


@on_cluster(voters=3, observers=1)
async def test_new_disk_of_an_observer_is_no_shared_id(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    machine = cluster.machines[4]
    with structlog.testing.capture_logs() as events:
        for _ in range(3):
            machine.kill()
            await machine.wait_until_ended()
            machine.replace_disk()
            await machine.start()
            await trio.sleep(5)
    assert said(events) == []


def test_late_fetch_from_a_replaced_disk_is_no_shared_id() -> None:
    old, new = (ReplicaKey(4, UUID(int=number, version=4)) for number in (1, 2))
    observers = SharedReplicas(1, within_s=2.0)
    with structlog.testing.capture_logs() as events:
        for tenths, observer in enumerate((old, new, old, *[new] * 30, old, new, old)):
            observers.fetched(observer, tenths / 10)
        for minutes, observer in enumerate((new, old) * 5, 1):
            observers.fetched(observer, minutes * 60.0)
    assert said(events) == []


# The leader takes both processes for one voter, which breaks what the invariants rest on.
@pytest.mark.rotating(3)
@on_cluster(voters=3, invariants=())
async def test_who_runs_on_a_copy_of_a_directory_says_so_and_fills_no_log(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    await cluster.wait_until_alike()
    end = leader.log.end_offset
    with structlog.testing.capture_logs() as events:
        await run_stray(cluster, follower, SAID_EVERY_S / 2, cluster.machines[follower.key.id].disk.copy())
    reasons = said(events)
    nodes = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    situation = await ask_all(cluster.network.seen_from("client"), nodes, timeout_ms=1000, fetch_timeout_ms=2000)
    assert findings(situation)[0].code == "shared-id"
    by_leader, *by_the_two = reasons
    assert by_leader == f"two processes on copies of the disk of {follower.key} fetch from this node, which leads"
    assert len(by_the_two) == 2, "each of the two says it"
    assert all(reason.endswith("runs on a copy of this node's directory") for reason in by_the_two)
    assert any(f"://{STRAY}:" in reason for reason in reasons)
    assert leader.log.end_offset - end < 12, "each waits longer before it tells its address again"


@on_cluster(voters=3, invariants=())
async def test_two_processes_on_copies_of_a_directory_count_as_blank(cluster: Cluster) -> None:
    """While both run, what they acknowledge commits nothing.  Once one of them has ended, the other one counts."""
    leader = await cluster.wait_for_leader()
    follower, other = cluster.others(leader)
    await cluster.wait_until_alike()
    with structlog.testing.capture_logs() as events:
        async with trio.open_nursery() as nursery:
            copy = cluster.machines[follower.key.id].disk.copy()
            nursery.start_soon(run_stray, cluster, follower, SAID_EVERY_S, copy)
            await cluster.wait_until(lambda: bool(said(events)))
            cluster.machines[other.key.id].kill()
            committed = leader.high_watermark
            nursery.start_soon(leader.append, [b"x"])
            await trio.sleep(1.5)
            assert leader.high_watermark == committed
            assert leader.log.end_offset > (committed or 0)
            nursery.cancel_scope.cancel()
    await cluster.wait_until(lambda: leader.high_watermark == leader.log.end_offset)
    assert leader.view.epoch == 1


@on_cluster(voters=3)
async def test_a_node_that_moves_back_and_forth_shares_no_id(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    moving = cluster.others(leader)[0].key.id
    with structlog.testing.capture_logs() as events:
        for _ in range(4):
            machine = cluster.machines[moving]
            machine.kill()
            await machine.wait_until_ended()
            cluster.move(moving)
            await machine.start()
            await trio.sleep(5)
    assert said(events) == []
    (voter,) = [voter for voter in leader.log.voters.voters if voter.id == moving]
    assert cluster.endpoint_of(moving) in [endpoint for _, endpoint in voter.endpoints]


@pytest.mark.parametrize("is_leader", [True, False])
@on_cluster(voters=3)
async def test_new_disk_of_a_dead_voter_is_no_shared_id(cluster: Cluster, is_leader: bool) -> None:
    leader = await cluster.wait_for_leader()
    machine = cluster.machines[(leader if is_leader else cluster.others(leader)[0]).key.id]
    with structlog.testing.capture_logs() as events:
        machine.kill()
        await machine.wait_until_ended()
        machine.replace_disk()
        await machine.start()
        await trio.sleep(20)
    assert said(events) == []


@on_cluster(voters=1)
async def test_another_topic_name_is_refused_by_name(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    machine = cluster.machines[1]
    await machine.stop()
    before = machine.disk.peek_names(machine.config.metadata_log_dir)
    cluster._configs[1] = attrs.evolve(machine.config, topic_name="other")
    with pytest.raises(StorageError, match=r"kraft\.topic\.name=__cluster_metadata, but kraft\.topic\.name=other"):
        async with lone_node(cluster, 1):
            pytest.fail("it runs")
    assert machine.disk.peek_names(machine.config.metadata_log_dir) == before
    assert not machine.disk.exists(f"{machine.config.metadata_log_dir}/other-0")


@on_cluster(voters=1, observers=1, started=(1,))
async def test_topic_of_a_node_that_never_ran_is_known(cluster: Cluster) -> None:
    cluster._configs[2] = attrs.evolve(cluster.config_of(2), topic_name="other")
    with pytest.raises(StorageError, match=r"kraft\.topic\.name=other is configured"):
        async with lone_node(cluster, 2):
            pytest.fail("it runs")
