"""How fast a dead leader is replaced: followers rise apart from each other, and a split vote is soon forgotten."""

from __future__ import annotations

import trio
import trio.testing

from kraft_trio.messages import Stamp, TimedOut
from kraft_trio.protocol.roles import Follower
from kraft_trio.simulation import Cluster, Setup
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.timing import set_timing

FETCH_TIMEOUT_S = 2.0


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
