"""Which replica an id stands for, when a target names it (KIP-642)."""

from __future__ import annotations

import attrs
import trio

from kraft_trio.simulation import Cluster
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.membership.test_reassignment import accepted, is_over, reassign
from tests.actors.membership.test_shared_node_id import run_stray
from tests.support.new_disk import replace_disk_of_a_follower
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import observers_of


@on_cluster()
async def test_the_id_of_a_replaced_disk_means_the_new_one(cluster: Cluster) -> None:
    """The same ids again are a target, because one of them is another replica now."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    epoch = leader.view.epoch
    old, new = await replace_disk_of_a_follower(cluster, leader)
    await trio.sleep(5)
    await accepted(cluster, leader, 1, 2, 3)
    assert new in leader.log.voters.target
    await cluster.wait_until(lambda: is_over(cluster, 1, 2, 3))
    keys = [voter.key for voter in leader.log.voters.voters]
    assert new in keys
    assert old not in keys
    assert leader.view.epoch == epoch


@on_cluster(observers=1)
async def test_an_id_of_two_incarnations_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    end = leader.log.end_offset
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_stray, cluster, cluster.nodes[4], 60)
        await cluster.wait_until(lambda: len(observers_of(leader)) == 2)
        result = await reassign(cluster, leader, 1, 2, 3, 4)
        assert result.error == ErrorCode.invalid_replica_assignment
        names = ", ".join(map(str, observers_of(leader)))
        assert f"replica 4 has 2 incarnations that fetch: {names}" in str(result.error_message)
        nursery.cancel_scope.cancel()
    assert leader.log.end_offset == end


@on_cluster()
async def test_a_voter_with_a_second_incarnation_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    voter = cluster.others(leader)[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_stray, cluster, voter, 60)
        await cluster.wait_until(lambda: len(observers_of(leader)) == 1)
        result = await reassign(cluster, leader, leader.key.id, voter.key.id)
        assert result.error == ErrorCode.invalid_replica_assignment
        assert f"replica {voter.key.id} has 2 incarnations that fetch" in str(result.error_message)
        nursery.cancel_scope.cancel()


@on_cluster(observers=1, started=())
async def test_a_node_that_has_told_no_listener_is_refused(cluster: Cluster) -> None:
    """A broker tells none, because it cannot become a voter."""
    cluster._configs[4] = attrs.evolve(cluster.config_of(4), process_roles=("broker",))
    for machine in cluster.machines.values():
        await machine.start()
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    end = leader.log.end_offset
    result = await reassign(cluster, leader, 1, 2, 4)
    assert result.error == ErrorCode.invalid_replica_assignment
    assert f"replica {cluster.key_of(4)} has told the leader no listener that voters could use" in str(
        result.error_message
    )
    assert leader.log.end_offset == end
