"""Whether a node that has lost its quorum says that it is ready."""

from __future__ import annotations

import trio

from kraft_trio.simulation import Cluster
from kraft_trio.status.health import readiness
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_last_of_three_nodes_is_never_ready(cluster: Cluster) -> None:
    """After each lost pre-vote, it follows the dead leader for another fetch timeout."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"x"])
    await cluster.wait_until_alike()
    last, dead = cluster.others(leader)
    for node in (leader, dead):
        cluster.machines[node.key.id].kill()
    fetch_timeout_s = last.config.fetch_timeout_ms / 1000
    await trio.sleep(3 * fetch_timeout_s)
    named = set()
    for _ in range(100):
        [problem] = [check.problem for check in readiness(last.tree, ()) if check.name == "leader-known"]
        assert problem is not None
        named.add(last.view.leader_id)
        await trio.sleep(fetch_timeout_s / 10)
    assert named == {None, leader.key.id}


@on_cluster()
async def test_node_is_ready_once_its_leader_answers_again(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, _ = cluster.others(leader)
    cluster.partition({follower.key.id}, set(cluster.voter_ids) - {follower.key.id})
    fetch_timeout_s = follower.config.fetch_timeout_ms / 1000
    await trio.sleep(3 * fetch_timeout_s)
    assert follower.tree.fetch_problem.reason is not None
    cluster.heal()
    await cluster.wait_until(lambda: follower.tree.fetch_problem.reason is None)
    assert [check.problem for check in readiness(follower.tree, ())] == [None] * 4


@on_cluster()
async def test_failure_counts_once_it_has_lasted_for_the_fetch_timeout(cluster: Cluster) -> None:
    """One that is over sooner costs nothing, such as a leader that has just ended."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, _ = cluster.others(leader)
    for lasted_s, is_ready in ((0.0, True), (follower.config.fetch_timeout_ms / 1000, False)):
        follower.tree.fetch_problem.ended()
        follower.tree.fetch_problem.failed("x", trio.current_time() - lasted_s)
        assert all(check.problem is None for check in readiness(follower.tree, ())) is is_ready


@on_cluster(voters=1)
async def test_leader_is_its_own(cluster: Cluster) -> None:
    """Whatever failed before it led."""
    leader = await cluster.wait_for_leader()
    leader.tree.fetch_problem.failed("x", trio.current_time() - 1000)
    assert all(check.problem is None for check in readiness(leader.tree, ()))
