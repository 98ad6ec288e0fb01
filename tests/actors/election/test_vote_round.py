"""How fast a dead leader is replaced: followers rise apart from each other, and a split vote is soon forgotten."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.messages import Stamp, TimedOut, VoteRoundEnded
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective
from kraft_trio.simulation import Cluster, Setup
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.timing import set_timing

FETCH_TIMEOUT_S = 2.0


@pytest.mark.rotating(3)
def test_a_dead_leader_is_replaced_soon_after_the_fetch_timeout() -> None:
    """By one election, but for the few times that both followers rise within a round trip of each other."""
    elections = []

    async def test(cluster: Cluster) -> None:
        old = await cluster.wait_for_leader()
        await trio.sleep(3)
        await old.append([b"value"])
        killed_at = trio.current_time()
        cluster.machines[old.key.id].kill()
        new = await cluster.wait_for_leader()
        elections.append(new.view.epoch - old.view.epoch)
        assert trio.current_time() - killed_at < FETCH_TIMEOUT_S * 1.1 + 0.3

    for seed in range(12):
        run_on_cluster(test, Setup(seed=seed))
    assert elections.count(1) >= 10


@on_cluster()
async def test_a_split_vote_costs_a_fraction_of_the_election_timeout(cluster: Cluster) -> None:
    """Two of three rise at once and vote for themselves, the third is dead: nobody wins, and both ask again soon."""
    set_timing(cluster)
    old = await cluster.wait_for_leader()
    survivors = [node for node in cluster.nodes.values() if node is not old]
    for node in survivors:
        await node.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    cluster.machines[old.key.id].kill()
    rose_at = trio.current_time()
    for node in survivors:
        stamp = node.view.stamp
        await node.election.tell(TimedOut(Stamp(stamp.epoch, stamp.transition)))
    new = await cluster.wait_for_leader()
    assert new.view.epoch > old.view.epoch + 1, "the first election was split"
    assert trio.current_time() - rose_at < 0.9, "no election timeout, one second or more, was waited out"


@pytest.mark.rotating(2)
@pytest.mark.parametrize(
    ("max_ms", "longest_s"), [(1000, [0.2, 0.4, 0.8, 1.0, 1.0]), (300, [0.2, 0.3, 0.3, 0.3, 0.3]), (0, [0.0] * 5)]
)
def test_the_wait_grows_with_each_lost_election_up_to_the_maximum(max_ms: int, longest_s: list[float]) -> None:
    """KIP-595's binary backoff.  Nobody else is there: the test lets pre-votes be won, and elections be lost."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        node, other = cluster.others(leader)
        for dead in (leader, other):
            cluster.machines[dead.key.id].kill()
        election = node.election
        for longest in longest_s:
            await election.view.wait_for(lambda view: isinstance(view.role, Prospective))
            await election.tell(VoteRoundEnded(node.view.stamp, won=True))
            await election.view.wait_for(lambda view: isinstance(view.role, Candidate))
            lost_at = trio.current_time()
            await election.tell(VoteRoundEnded(node.view.stamp, won=False))
            await election.view.wait_for(lambda view: isinstance(view.role, Prospective))
            assert longest / 4 - 0.001 <= trio.current_time() - lost_at <= longest + 0.01

    for seed in range(8):
        run_on_cluster(test, Setup(seed=seed, settings={"controller.quorum.election.backoff.max.ms": str(max_ms)}))


@on_cluster()
async def test_a_leader_ends_the_growth_of_the_wait(cluster: Cluster) -> None:
    """So the next split vote costs as little as the first."""
    node = cluster.others(await cluster.wait_for_leader())[0]
    for longest in (0.2, 0.2):
        others = set(cluster.voter_ids) - {node.key.id}
        cluster.partition({node.key.id}, others)
        await node.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
        await node.election.tell(VoteRoundEnded(node.view.stamp, won=True))
        await node.election.view.wait_for(lambda view: isinstance(view.role, Candidate))
        lost_at = trio.current_time()
        await node.election.tell(VoteRoundEnded(node.view.stamp, won=False))
        await node.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
        assert trio.current_time() - lost_at <= longest + 0.01
        cluster.heal()
        await node.election.view.wait_for(lambda view: isinstance(view.role, Follower | Leader))
