"""Nodes without a vote: they find the leader, follow it, and never campaign."""

from __future__ import annotations

import trio
import trio.testing

from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective
from kraft_trio.wire.api import VOTE
from tests.support.cluster import Cluster, endpoint_of, key_of
from tests.support.raw_client import RawClient

Clock = trio.testing.MockClock


async def test_an_observer_finds_the_leader_and_catches_up(autojump_clock: Clock) -> None:
    """Its blank log names no voters: all it knows is the bootstrap servers (scenario S5)."""
    async with Cluster().running() as cluster:
        leader = await cluster.wait_for_leader()
        await leader.append([b"one", b"two"])
        observer = await cluster.restart(4)
        assert len(observer.view.voters) == 0
        with trio.fail_after(1):
            await cluster.wait_until_alike()
        assert cluster.log_bytes(observer) == cluster.log_bytes(leader)
        assert observer.view.voters.ids == (1, 2, 3)


async def test_an_observer_follows_the_next_leader(autojump_clock: Clock) -> None:
    async with Cluster().running(1, 2, 3, 4) as cluster:
        old = await cluster.wait_for_leader()
        cluster.kill(old.key.id)
        new = await cluster.wait_for_leader()
        await new.append([b"value"])
        await cluster.wait_until_alike()
        assert cluster.nodes[4].view.leader_id == new.key.id


async def test_an_observer_does_not_campaign(autojump_clock: Clock) -> None:
    async with Cluster().running(1, 2, 3, 4) as cluster:
        await cluster.wait_for_leader()
        observer = cluster.nodes[4]
        await observer.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        epoch = observer.view.epoch
        for node_id in cluster.voter_ids:
            cluster.kill(node_id)
        for _ in range(200):
            await trio.sleep(0.1)
            assert not isinstance(observer.view.role, Prospective | Candidate | Leader)
        assert observer.view.epoch == epoch
        assert cluster.network.requests_sent[endpoint_of(4).host, VOTE.key] == 0


async def test_observers_grant_votes(autojump_clock: Clock) -> None:
    """KIP-853: a member of a set that they have not read yet may need them."""
    async with Cluster().running(4) as cluster:
        async with RawClient.connected(cluster, 4) as client:
            assert (await client.vote(key_of(2), 5, (0, 0))).vote_granted
        assert cluster.nodes[4].view.epoch == 5


async def test_a_voter_that_comes_late_finds_the_leader(autojump_clock: Clock) -> None:
    """It has never heard of an epoch, and asks around without disturbing."""
    async with Cluster().running(1, 2) as cluster:
        leader = await cluster.wait_for_leader()
        await trio.sleep(5)
        stamp = leader.view.stamp
        late = await cluster.restart(3)
        with trio.fail_after(1.5):
            await late.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        await cluster.wait_until_alike()
        assert leader.view.stamp == stamp


async def test_followers_hear_of_the_high_watermark_within_milliseconds(autojump_clock: Clock) -> None:
    """Also when nothing more is appended, and although the fetches of the fast ones wait already (KIP-1166)."""
    async with Cluster().running(1, 2, 3, 4) as cluster:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        for slow in (leader, cluster.others(leader)[0]):
            cluster.disks[slow.key.id].sync_latency = lambda: 0.05
        (offset,) = await leader.append([b"value"])
        committed_at = trio.current_time()
        for node in cluster.nodes.values():
            while (node.high_watermark or 0) <= offset:
                await node.log.changed.park()
        assert trio.current_time() - committed_at <= 0.01
