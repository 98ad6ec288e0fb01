"""Graceful stops: the leader hands over, and nothing waits for those that are not there."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.messages import QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Follower, Leader, Prospective, Resigned
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.api import END_QUORUM_EPOCH
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_the_most_caught_up_voter_leads_at_once(cluster: Cluster) -> None:
    """Well before any election timeout could have run out (they begin at a second)."""
    cluster.network.set_default_link(latency=Latency.constant(0.002))
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    behind, ahead = cluster.others(leader)
    cluster.machines[behind.key.id].disk.sync_latency = lambda: 0.05
    await leader.append([b"value"])
    await cluster.machines[leader.key.id].stop()
    with trio.fail_after(0.3):
        assert (await cluster.wait_for_leader()) is ahead
    await cluster.wait_until_alike()


async def wait_until_known_alike(cluster: Cluster, leader: Node) -> None:
    """Until the leader knows that all voters have all: then it prefers them as successors by their ids."""
    await cluster.wait_until_alike()
    voters, end = leader.log.voters.voters, leader.log.end_offset
    progress = leader.election.progress
    await cluster.wait_until(lambda: [*progress.synced_end_offsets(voters, end).values()] == [end] * len(voters))


def knows_of_the_resignation(view: QuorumView) -> bool:
    return isinstance(view.role, Follower) and view.role.leader_resigned


def campaigns_in(events: list[TraceEvent]) -> list[tuple[int | None, object]]:
    """The steps of campaigns: the node, and the role that it took."""
    roles = [(event.node, event.details["role"]) for event in events if event.kind == "log" and event.cause == "role"]
    return [(node, role) for node, role in roles if role in ("Prospective", "Candidate", "Leader")]


@on_cluster()
async def test_a_successor_refused_too_early_asks_again(cluster: Cluster) -> None:
    """Its pre-vote overtakes the resignation on its way to the other voter, and the leader has a longer log.

    Both refuse, so it cannot win yet.  It must not wait for the other one, whose turn comes after half a second.
    """
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    first, second = cluster.others(leader)
    hosts = {id: machine.host for id, machine in cluster.machines.items()}
    cluster.network.set_default_link(latency=Latency.constant(0.002))
    cluster.network.set_link(hosts[leader.key.id], hosts[second.key.id], latency=Latency.constant(0.05))
    leader.log.append_as_leader(encode_batch([NewRecord(value=b"only here")], timestamp_ms=0), leader.view.epoch)
    events: list[TraceEvent] = []
    cluster.trace.listeners.append(events.append)
    cluster.nursery.start_soon(cluster.machines[leader.key.id].stop)
    with trio.fail_after(0.25):
        assert (await cluster.wait_for_leader(other_than=leader)) is first
    assert campaigns_in(events) == [(first.key.id, role) for role in ("Prospective", "Candidate", "Leader")]
    refusals = [event.node for event in events if event.cause == "vote requested" and not event.details["granted"]]
    assert set(refusals[:2]) == {leader.key.id, second.key.id}


@on_cluster(settings={"controller.quorum.fetch.timeout.ms": "60000"})
async def test_a_successor_without_a_majority_asks_on(cluster: Cluster) -> None:
    """It would wait for the fetch timeout of a leader that is gone if it followed that leader as before."""
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    down, up = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    await cluster.machines[leader.key.id].stop()
    await up.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
    await up.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    await cluster.machines[down.key.id].start()
    with trio.fail_after(2.5):
        assert (await cluster.wait_for_leader()) is up


@on_cluster(voters=5)
async def test_the_second_successor_waits_its_turn(cluster: Cluster) -> None:
    """The preferred successor of four is gone; the next one waits an eighth of the longest backoff, a second."""
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    first, second, third, _ = cluster.others(leader)
    cluster.partition(set(cluster.voter_ids) - {first.key.id}, {first.key.id})
    cluster.nursery.start_soon(cluster.machines[leader.key.id].stop)
    await second.election.view.wait_for(knows_of_the_resignation)
    begun = trio.current_time()
    await second.election.view.wait_for(lambda view: not isinstance(view.role, Follower))
    assert 0.125 <= trio.current_time() - begun < 0.15
    assert isinstance(third.view.role, Follower), "its turn comes after 250 ms"
    assert (await cluster.wait_for_leader()) is second


@pytest.mark.parametrize("silent", [False, True], ids=["connections break", "nothing arrives"])
@on_cluster(settings={"kraft.shutdown.grace.ms": "500"})
async def test_a_leader_that_reaches_nobody_ends_within_the_grace(cluster: Cluster, silent: bool) -> None:
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id}, silent=silent)
    with trio.fail_after(0.51):
        await cluster.machines[leader.key.id].stop()


@on_cluster(settings={"kraft.shutdown.grace.ms": "10000"})
async def test_a_leader_goes_on_handing_over_after_an_election_timeout(cluster: Cluster) -> None:
    """Voters on slow machines answer late.  An election timeout is at most two seconds, three attempts take three."""
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id}, silent=True)
    cluster.nursery.start_soon(cluster.machines[leader.key.id].stop)
    await trio.sleep(2.5)
    assert isinstance(leader.view.role, Resigned)
    assert cluster.machines[leader.key.id].node is leader


@on_cluster(settings={"controller.quorum.election.backoff.max.ms": "2000"})
async def test_a_leader_does_not_wait_for_a_voter_that_is_down(cluster: Cluster) -> None:
    """Refused connections a few times in a row are answer enough; the one that is there is told all the same."""
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    down, up = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    with trio.fail_after(0.9):
        await cluster.machines[leader.key.id].stop()
    with trio.fail_after(1.01):
        await up.election.view.wait_for(lambda view: not isinstance(view.role, Follower))


@on_cluster()
async def test_a_follower_stops_at_once(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, _ = cluster.others(leader)
    with trio.fail_after(0.1):
        await cluster.machines[follower.key.id].stop()
    assert isinstance(leader.view.role, Leader)


@on_cluster(voters=1)
async def test_a_sole_voter_stops_at_once(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    with trio.fail_after(0.1):
        await cluster.machines[1].stop()


@on_cluster()
async def test_all_stop_together_and_come_back(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    async with trio.open_nursery() as nursery:
        for node_id in cluster.voter_ids:
            nursery.start_soon(cluster.machines[node_id].stop)
    for node_id in cluster.voter_ids:
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    await leader.append([b"after"])
    await cluster.wait_until_alike()
    assert values_in(leader) == [b"before", b"after"]


@on_cluster()
async def test_a_lost_answer_to_the_resignation_is_asked_for_again(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    down, up = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    answers = frames_of(END_QUORUM_EPOCH, is_request=False, source=cluster.machines[up.key.id].host)
    planned = cluster.network.plan(answers, FrameFate.RESET, times=2)
    await cluster.machines[leader.key.id].stop()
    assert planned.times == 0
    await cluster.machines[down.key.id].start()
    with trio.fail_after(2):
        assert (await cluster.wait_for_leader()).key.id != leader.key.id


@on_cluster()
async def test_a_lost_resignation_is_told_again(cluster: Cluster) -> None:
    """Twice the network loses it, the second time as the network client sends it again by itself."""
    leader = await cluster.wait_for_leader()
    await wait_until_known_alike(cluster, leader)
    down, up = cluster.others(leader)
    cluster.machines[down.key.id].kill()
    resignations = frames_of(END_QUORUM_EPOCH, is_request=True, target=cluster.machines[up.key.id].host)
    planned = cluster.network.plan(resignations, FrameFate.RESET, times=2)
    cluster.nursery.start_soon(cluster.machines[leader.key.id].stop)
    with trio.fail_after(0.4):
        await up.election.view.wait_for(knows_of_the_resignation)
    assert planned.times == 0
