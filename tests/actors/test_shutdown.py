"""Graceful stops: the leader hands over, and nothing waits for those that are not there."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.protocol.roles import Follower, Leader
from kraft_trio.wire.api import END_QUORUM_EPOCH
from tests.support.cluster import Cluster

Clock = trio.testing.MockClock


async def test_the_most_caught_up_voter_leads_at_once(autojump_clock: Clock) -> None:
    """Well before any election timeout could have run out (they begin at a second)."""
    async with Cluster().running() as cluster:
        cluster.network.latency_s = lambda: 0.002
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        behind, ahead = cluster.others(leader)
        cluster.disks[behind.key.id].sync_latency = lambda: 0.05
        await leader.append([b"value"])
        await cluster.stop(leader.key.id)
        with trio.fail_after(0.3):
            assert (await cluster.wait_for_leader()) is ahead
        await cluster.wait_until_alike()


async def test_the_second_successor_waits_its_turn(autojump_clock: Clock) -> None:
    """The preferred successor of four is gone; the next one waits an eighth of the longest backoff, a second."""
    async with Cluster(voter_ids=(1, 2, 3, 4, 5)).running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        first, second, third, _ = cluster.others(leader)
        cluster.partition(set(cluster.voter_ids) - {first.key.id}, {first.key.id})
        begun = trio.current_time()
        cluster.stops[leader.key.id].set()
        await second.election.view.wait_for(lambda view: not isinstance(view.role, Follower))
        assert 0.125 <= trio.current_time() - begun < 0.15
        assert isinstance(third.view.role, Follower), "its turn comes after 250 ms"
        assert (await cluster.wait_for_leader()) is second


@pytest.mark.parametrize("silent", [False, True], ids=["connections break", "nothing arrives"])
async def test_a_leader_that_reaches_nobody_ends_within_the_grace(autojump_clock: Clock, silent: bool) -> None:
    async with Cluster(settings={"kraft.shutdown.grace.ms": "3000"}).running() as cluster:
        leader = await cluster.wait_for_leader()
        cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id}, silent=silent)
        with trio.fail_after(3.2):
            await cluster.stop(leader.key.id)


async def test_a_leader_does_not_wait_for_a_voter_that_is_down(autojump_clock: Clock) -> None:
    """Refused connections a few times in a row are answer enough; the one that is there is told all the same."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        down, up = cluster.others(leader)
        cluster.kill(down.key.id)
        with trio.fail_after(0.4):
            await cluster.stop(leader.key.id)
        with trio.fail_after(0.51):
            await up.election.view.wait_for(lambda view: not isinstance(view.role, Follower))


async def test_a_follower_and_a_sole_voter_stop_at_once(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        follower, _ = cluster.others(leader)
        with trio.fail_after(0.1):
            await cluster.stop(follower.key.id)
        assert isinstance(leader.view.role, Leader)
    async with Cluster(voter_ids=(1,)).running() as cluster:
        await cluster.wait_for_leader()
        with trio.fail_after(0.1):
            await cluster.stop(1)


async def test_all_stop_together_and_come_back(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await leader.append([b"before"])
        async with trio.open_nursery() as nursery:
            for node_id in cluster.voter_ids:
                nursery.start_soon(cluster.stop, node_id)
        for node_id in cluster.voter_ids:
            await cluster.restart(node_id)
        leader = await cluster.wait_for_leader()
        await leader.append([b"after"])
        await cluster.wait_until_alike()
        assert cluster.values(leader) == [b"before", b"after"]


async def test_a_lost_answer_to_the_resignation_is_asked_for_again(autojump_clock: Clock) -> None:
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        cluster.network.lose_answers(END_QUORUM_EPOCH, times=2)
        await cluster.stop(leader.key.id)
        assert cluster.network.answers_still_to_lose(END_QUORUM_EPOCH) == 0
        with trio.fail_after(2):
            assert (await cluster.wait_for_leader()).key.id != leader.key.id
