"""Nodes without a vote: they find the leader, follow it, and never campaign."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.config.values import StaticVoter
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import VOTE
from tests.support.logs import log_bytes
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, RawClient


@on_cluster(observers=1, started=(1, 2, 3))
async def test_an_observer_finds_the_leader_and_catches_up(cluster: Cluster) -> None:
    """Its blank log names no voters: all it knows is the bootstrap servers (scenario S5)."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"one", b"two"])
    observer = await cluster.machines[4].start()
    assert len(observer.view.voters) == 0
    with trio.fail_after(1):
        await cluster.wait_until_alike()
    assert log_bytes(observer) == log_bytes(leader)
    assert observer.view.voters.ids == (1, 2, 3)


@on_cluster(voters=1, observers=1, started=(1,), invariants=FORGED)
async def test_a_blank_observer_that_knows_the_epoch_finds_the_leader(cluster: Cluster) -> None:
    """Seeds 400045, 430026: a leader that gives what it is asked for does not say where it is, nor does a blank log."""
    leader = await cluster.wait_for_leader()
    cluster.partition([1], [2])
    observer = await cluster.machines[2].start()
    async with RawClient.connected(cluster, 2) as client:
        await client.vote(leader.key, leader.view.epoch, (0, 0))
    assert observer.view.epoch == leader.view.epoch
    assert observer.view.leader_id is None
    cluster.heal()
    with trio.fail_after(1):
        await cluster.wait_until_alike()


@on_cluster(observers=1, started=(1, 2, 3))
async def test_configured_voters_are_bootstrap_servers(cluster: Cluster) -> None:
    """KIP-853: at kraft.version 1, where controller.quorum.bootstrap.servers is empty.

    The observer was away while the voters moved; only its configuration has their new addresses.
    """
    await cluster.wait_for_leader()
    await cluster.machines[4].start()
    await cluster.wait_until_alike()
    await cluster.machines[4].stop()
    for node_id in cluster.voter_ids:
        await cluster.machines[node_id].stop()
        cluster.move(node_id)
        node = await cluster.machines[node_id].start()
        own = cluster.config_of(node_id).advertised_endpoints()
        await node.election.view.wait_for(lambda view, id=node_id, own=own: view.voters.get(id).endpoints == own)
        await cluster.wait_until_alike(*cluster.voter_ids)
    voters = tuple(StaticVoter(id, cluster.endpoint_of(id)) for id in cluster.voter_ids)
    cluster._configs[4] = attrs.evolve(
        cluster.config_of(4), process_roles=("broker",), quorum_bootstrap_servers=(), quorum_voters=voters
    )
    await (await cluster.wait_for_leader()).append([b"value"])
    await cluster.machines[4].start()
    with trio.fail_after(10):
        await cluster.wait_until_alike()
    assert cluster.nodes[4].view.kraft_version == 1


NOBODY = Endpoint("10.9.9.9", 9)


@pytest.mark.parametrize("names_voter", [False, True])
def test_static_voters_are_not_asked_beside_bootstrap_servers(names_voter: bool) -> None:
    """KIP-853: then observers do not use the endpoints of controller.quorum.voters to discover the leader."""

    @on_cluster(observers=1, kraft_version=0, started=(1, 2, 3))
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        server = cluster.endpoint_of(leader.key.id) if names_voter else NOBODY
        cluster._configs[4] = attrs.evolve(cluster.config_of(4), quorum_bootstrap_servers=(server,))
        observer = await cluster.machines[4].start()
        assert [observer.view.voters.is_voter(node.key) for node in (leader, observer)] == [True, False]
        await trio.sleep(60)
        assert observer.view.leader_id == (leader.key.id if names_voter else None)

    test()


@pytest.mark.parametrize("servers", [(), (NOBODY,)])
def test_observer_that_has_lost_the_leader_asks_static_voters_without_bootstrap_servers(
    servers: tuple[Endpoint, ...],
) -> None:
    @on_cluster(observers=1, kraft_version=0, started=(1, 2, 3))
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        found = cluster.endpoint_of(leader.key.id)
        cluster._configs[4] = attrs.evolve(cluster.config_of(4), quorum_bootstrap_servers=(found,) if servers else ())
        await cluster.machines[4].start()
        await cluster.wait_until_alike()
        cluster.machines[leader.key.id].kill()
        successor = await cluster.wait_for_leader()
        await trio.sleep(60)
        assert (cluster.nodes[4].view.leader_id == successor.key.id) is not bool(servers)

    test()


@on_cluster(observers=1)
async def test_an_observer_follows_the_next_leader(cluster: Cluster) -> None:
    old = await cluster.wait_for_leader()
    cluster.machines[old.key.id].kill()
    new = await cluster.wait_for_leader()
    await new.append([b"value"])
    await cluster.wait_until_alike()
    assert cluster.nodes[4].view.leader_id == new.key.id


@on_cluster(observers=1)
async def test_an_observer_does_not_campaign(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    observer = cluster.nodes[4]
    await observer.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    epoch = observer.view.epoch
    for node_id in cluster.voter_ids:
        cluster.machines[node_id].kill()
    for _ in range(200):
        await trio.sleep(0.1)
        assert not isinstance(observer.view.role, Prospective | Candidate | Leader)
    assert observer.view.epoch == epoch
    assert cluster.network.requests_sent[cluster.machines[4].host, VOTE.key] == 0


@on_cluster(observers=1, started=(4,), invariants=FORGED)
async def test_observers_grant_votes(cluster: Cluster) -> None:
    """KIP-853: a member of a set that they have not read yet may need them."""
    async with RawClient.connected(cluster, 4) as client:
        assert (await client.vote(cluster.key_of(2), 5, (0, 0))).vote_granted
    assert cluster.nodes[4].view.epoch == 5


@on_cluster(started=(1, 2))
async def test_a_voter_that_comes_late_finds_the_leader(cluster: Cluster) -> None:
    """It has never heard of an epoch, and asks around without disturbing."""
    leader = await cluster.wait_for_leader()
    await trio.sleep(5)
    stamp = leader.view.stamp
    late = await cluster.machines[3].start()
    with trio.fail_after(1.5):
        await late.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    await cluster.wait_until_alike()
    assert leader.view.stamp == stamp


@on_cluster(observers=1)
async def test_followers_hear_of_the_high_watermark_in_milliseconds(cluster: Cluster) -> None:
    """Also when nothing more is appended, and although the fetches of the fast ones wait already (KIP-1166)."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for slow in (leader, cluster.others(leader)[0]):
        cluster.machines[slow.key.id].disk.sync_latency = lambda: 0.05
    (offset,) = await leader.append([b"value"])
    committed_at = trio.current_time()
    for node in cluster.nodes.values():
        while (node.high_watermark or 0) <= offset:
            await node.log.changed.park()
    assert trio.current_time() - committed_at <= 0.01
