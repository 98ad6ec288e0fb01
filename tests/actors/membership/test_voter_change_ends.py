"""How the wait for a voter change ends, and what is left then: nobody who waits, no connection, no task.

By commit, truncation, resignation, timeout or refusal (a voter change lives in a cancel scope).
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
import trio

from kraft_trio.messages import LeadershipLost
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.wire.api import FETCH
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID, RawClient
from tests.support.voter_change_requests import (
    add_voter,
    answering_versions,
    beside,
    held,
    listening,
    remove_voter,
    until_asked,
    voters_everywhere,
)


def connections(cluster: Cluster, opener: Node, to_id: int) -> int:
    """How many connections to the address of another that node holds open."""
    host, endpoint = cluster.machines[opener.key.id].host, cluster.endpoint_of(to_id)
    return sum(
        connection.endpoint == endpoint and any(end.host == host and not end.is_closed for end in connection.ends)
        for connection in cluster.network._connections.values()
    )


def changes_under_way() -> int:
    """How many tasks there are that make a voter change, in all nodes."""

    def tasks(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
        yield task
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield from tasks(child)

    root = trio.lowlevel.current_root_task()
    assert root is not None
    return sum("VoterChangeCoordinator._make" in task.name for task in tasks(root))


@on_cluster(observers=1)
async def test_by_commit(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            assert changes_under_way()
        assert (await asked.wait()).error == ErrorCode.none
    await until_asked()
    assert changes_under_way() == 0
    assert (await remove_voter(cluster, leader, cluster.key_of(4))).error == ErrorCode.none
    await until_asked(1)
    assert connections(cluster, leader, 4) == 0, "what was opened for the voter goes with it"
    assert cluster.endpoint_of(4) not in leader.tree.client._peers


@pytest.mark.parametrize("moment", ["nobody answers", "it answers and lags", "appended"])
@on_cluster(observers=1)
async def test_by_timeout(cluster: Cluster, moment: str) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    machine = cluster.machines[4]
    before = connections(cluster, leader, 4)
    if moment == "nobody answers":
        machine.pause()
    if moment == "it answers and lags":
        cluster.network.answers_only(machine.host, cluster.machines[leader.key.id].host)
        await trio.sleep(3)
    with held(cluster, leader, *(cluster.voter_ids if moment == "appended" else ())):
        response = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=700)
        assert response.error == ErrorCode.request_timed_out
        assert ("appended at offset" in str(response.error_message)) is (moment == "appended")
        await until_asked()
        assert bool(changes_under_way()) is (moment == "appended"), "which keeps its turn until it has committed"
    if moment == "appended":
        await cluster.wait_until(lambda: leader.log.high_watermark == leader.log.end_offset)
        await until_asked()
        assert changes_under_way() == 0
    else:
        assert connections(cluster, leader, 4) == before
        assert leader.log.voters.voters.ids == (1, 2, 3)


@on_cluster(observers=1)
async def test_by_refusal(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    before = connections(cluster, leader, 4)
    cluster.network.cap_versions(cluster.machines[4].host, {}, kraft_version=0)
    assert (await add_voter(cluster, leader, cluster.key_of(4))).error == ErrorCode.invalid_request
    await until_asked()
    assert (changes_under_way(), connections(cluster, leader, 4)) == (0, before)


@on_cluster(observers=1)
async def test_by_resignation(cluster: Cluster) -> None:
    """In whatever step each change is, it is answered, and nothing of it continues."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    absent = cluster.key_of(4)
    before = connections(cluster, leader, 4)
    cluster.machines[4].pause()
    async with trio.open_nursery() as nursery:
        asking = beside(nursery, add_voter, cluster, leader, absent)
        await until_asked()
        with held(cluster, leader):
            appended = beside(nursery, remove_voter, cluster, leader, cluster.others(leader)[0].key)
            await until_asked()
            in_turn = beside(nursery, remove_voter, cluster, leader, cluster.others(leader)[1].key)
            await until_asked()
            assert changes_under_way() == 3
            await leader.election.tell(LeadershipLost(leader.view.stamp, "the test wants it"))
            for asked in (asking, appended, in_turn):
                assert (await asked.wait()).error == ErrorCode.not_leader_or_follower
            assert (changes_under_way(), connections(cluster, leader, 4)) == (0, before)


@on_cluster(observers=1)
async def test_by_truncation(cluster: Cluster) -> None:
    """The surviving log's set is in force, and connections to replicas outside it are closed."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        asked = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
        while 4 not in leader.log.voters.voters.ids:
            await leader.log.changed.park()
        cluster.machines[4].crash("all")
        cluster.partition({leader.key.id}, {node.key.id for node in cluster.others(leader)})
        assert (await asked.wait()).error == ErrorCode.not_leader_or_follower
        assert "it may still commit" in asked.answer.error_message
        successor = await cluster.wait_for_leader(other_than=leader)
        assert leader.log.voters.voters.ids == (1, 2, 3, 4), "not truncated yet"
        await successor.append([b"value"])
        cluster.heal()
        await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3))
        await cluster.wait_until_alike()
        await until_asked(3)
        assert (changes_under_way(), connections(cluster, leader, 4)) == (0, 0)
        assert cluster.endpoint_of(4) not in leader.tree.client._peers


@on_cluster(voters=1)
async def test_a_voter_of_another_cluster_never_catches_up(cluster: Cluster) -> None:
    """It answers, as every node does; but it has nothing to fetch here, and the leader refuses its Fetch."""
    leader = await cluster.wait_for_leader()
    stranger = ReplicaKey(4, UUID(int=4))
    elsewhere = Endpoint("elsewhere", 9093)
    end = leader.log.end_offset
    async with listening(cluster, elsewhere, answering_versions(kraft_versions=VersionRange(0, 1))):
        async with RawClient.connected(cluster, 1) as client:
            request = FetchRequest(
                "another", stranger.id, 0, 0, partitions=(FetchPartition(TOPIC, TOPIC_ID, 0, end, 2**20, 1, 1),)
            )
            assert (await client.ask(FETCH, request)).error == ErrorCode.inconsistent_cluster_id
        listeners = Endpoints({LISTENER: elsewhere})
        refused = await add_voter(cluster, leader, stranger, listeners=listeners, timeout_ms=1000)
    assert refused.error == ErrorCode.request_timed_out
    assert f"replica {stranger} to catch up" in str(refused.error_message)
    assert leader.log.end_offset == end
