"""A new voter that dies between any two steps of its addition, and a leader that does: in or out, the same everywhere.

Also how majorities are counted while the set changes.
"""

from __future__ import annotations

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import ADD_RAFT_VOTER, API_VERSIONS, BEGIN_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, RawClient
from tests.support.voter_change_requests import (
    add_voter,
    beside,
    held,
    remove_voter,
    until_asked,
    voters_everywhere,
)


@pytest.mark.parametrize("moment", ["before it is asked", "when it is asked", "when it has answered", "when appended"])
@pytest.mark.parametrize("voters", [1, 3])
def test_the_new_voter_dies(moment: str, voters: int) -> None:
    """Alone, or with two others: once it is back, its addition has happened, or can be asked for again."""

    @on_cluster(voters=voters, observers=1)
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        machine = cluster.machines[voters + 1]
        leader_host = cluster.machines[leader.key.id].host

        def dies_at(message: Message) -> bool:
            is_probe = message.api_key == API_VERSIONS.key and leader_host in (message.source, message.target)
            if is_probe and machine.host in (message.source, message.target):
                if moment == "when it is asked" and message.is_request:
                    machine.kill()
                if moment == "when it has answered" and not message.is_request:
                    machine.kill()
            return False

        cluster.network.plan(dies_at, FrameFate.DELIVER)
        if moment == "before it is asked":
            machine.kill()
        async with trio.open_nursery() as nursery:
            key = cluster.key_of(machine.id)
            asked = beside(nursery, add_voter, cluster, leader, key, timeout_ms=1000)
            while moment == "when appended" and machine.id not in leader.log.voters.voters.ids:
                await leader.log.changed.park()
            if moment == "when appended":
                machine.kill()
            answer = await asked.wait()
        cluster.network.forget_plans()
        if moment == "when appended" and voters == 3:
            assert answer.error == ErrorCode.none, "three of four are enough"
        await machine.wait_until_ended()
        await machine.start()
        leader = await cluster.wait_for_leader()
        assert (await add_voter(cluster, leader, key)).error in (ErrorCode.none, ErrorCode.duplicate_voter)
        await cluster.wait_until(lambda: voters_everywhere(cluster, *range(1, voters + 2)))
        await leader.append([b"value"])
        await cluster.wait_until_alike()

    test()


@on_cluster(observers=1)
async def test_the_leader_dies_with_an_addition_that_the_new_voter_has(cluster: Cluster) -> None:
    """The others do not know the new voter, and elect it all the same, or outvote it: in or out, but not both."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    machine = cluster.machines[leader.key.id]
    async with trio.open_nursery() as nursery:
        for other in cluster.others(leader):
            cluster.network.one_way(machine.host, cluster.machines[other.key.id].host)

        async def ask() -> None:
            with pytest.raises(NetworkError):
                await add_voter(cluster, leader, cluster.key_of(4))

        nursery.start_soon(ask)
        await until_asked(0.3)
        assert cluster.nodes[4].log.voters.voters.ids == (1, 2, 3, 4)
        machine.crash("all")
        nursery.cancel_scope.cancel()
    cluster.heal()
    await machine.wait_until_ended()
    await machine.start()
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    assert {node.log.voters.voters.ids for node in cluster.nodes.values()} in ({(1, 2, 3)}, {(1, 2, 3, 4)})


@on_cluster(observers=1)
async def test_a_new_voter_raises_what_a_commit_needs(cluster: Cluster) -> None:
    """With 4 in the set three are needed: the high watermark stays until they are there, and never goes back."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    slow = [node.key.id for node in cluster.others(leader)]
    async with trio.open_nursery() as nursery:
        with held(cluster, leader, *slow):
            before = leader.log.high_watermark
            beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked(0.5)
            assert leader.log.high_watermark == before
            cluster.network.unclog(cluster.machines[slow[0]].host, cluster.machines[leader.key.id].host)
            await until_asked(0.5)
            assert leader.log.high_watermark == leader.log.end_offset


@on_cluster(voters=4)
async def test_a_removal_lowers_what_a_commit_needs(cluster: Cluster) -> None:
    """Of four, two are away: nothing commits until one of those is out of the set."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    _, *away = [node.key for node in cluster.others(leader)]
    async with trio.open_nursery() as nursery:
        with held(cluster, leader, *(key.id for key in away)):
            nursery.start_soon(leader.append, [b"value"])
            await until_asked(0.2)
            assert leader.log.high_watermark != leader.log.end_offset
            assert (await remove_voter(cluster, leader, away[0])).error == ErrorCode.none
            assert leader.log.high_watermark == leader.log.end_offset


@on_cluster(voters=5)
async def test_check_quorum_counts_by_the_newest_set(cluster: Cluster) -> None:
    """Two are down and leave one by one; of the three that are left, two are enough."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    first, second, *_ = cluster.others(leader)
    for gone in (first, second):
        cluster.machines[gone.key.id].kill()
        assert (await remove_voter(cluster, leader, gone.key)).error == ErrorCode.none
    await trio.sleep(10)
    assert leader.view.epoch == 1
    third, _ = [node for node in cluster.others(leader) if node.key.id in leader.view.voters.ids]
    cluster.machines[third.key.id].kill()
    await trio.sleep(10)
    assert leader.view.epoch == 1, "two of three"


@on_cluster(observers=1)
async def test_a_new_voter_is_told_of_the_leader(cluster: Cluster) -> None:
    """Where it stops fetching, BeginQuorumEpoch goes to it from then on as to any voter."""
    leader = await cluster.wait_for_leader()
    await add_voter(cluster, leader, cluster.key_of(4))
    cluster.network.answers_only(cluster.machines[4].host, cluster.machines[leader.key.id].host)
    seen: list[str] = []

    def watch(message: Message) -> bool:
        if message.api_key == BEGIN_QUORUM_EPOCH.key and message.is_request:
            seen.append(message.target)
        return False

    cluster.network.plan(watch, FrameFate.DELIVER)
    await trio.sleep(5)
    assert cluster.machines[4].host in seen


@on_cluster(observers=1)
async def test_the_bootstrap_checkpoint_is_never_fetched(cluster: Cluster) -> None:
    """From offset 0 on there are records, the voters' among them; nobody asks for the snapshot 0-0."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.fetch(0, epoch=1, last_fetched_epoch=0, replica=cluster.key_of(4))
    assert answer.error == ErrorCode.none
    assert answer.snapshot_id is None
    assert answer.records
    sent = cluster.network.requests_sent
    assert sum(sent[machine.host, FETCH_SNAPSHOT.key] for machine in cluster.machines.values()) == 0
    assert sent[cluster.machines[4].host, FETCH.key] > 0
    assert cluster.nodes[4].log.voters.voters == cluster.initial_voters
    assert not cluster.nodes[4].log.voters.came_from_bootstrap
    assert not [
        name
        for name in cluster.machines[4].disk.list_directory(f"/data/{TOPIC}-0")
        if "checkpoint" in name and name[0] == "0"
    ]


@on_cluster(observers=1)
async def test_a_request_that_is_delivered_twice_adds_once(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cluster.network.plan(frames_of(ADD_RAFT_VOTER, is_request=True), FrameFate.DUPLICATE)
    with pytest.raises(NetworkError):
        await add_voter(cluster, leader, cluster.key_of(4))
    await trio.sleep(5)
    assert voters_everywhere(cluster, 1, 2, 3, 4)
