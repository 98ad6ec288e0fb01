"""RemoveRaftVoter, over the wire: KIP-853 "RemoveVoter", its errors, and what becomes of a leader that is removed."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from kraft_trio.messages import LeadershipLost
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.new_disk import replace_disk_of_a_follower
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.voter_change_requests import (
    add_voter,
    beside,
    elected,
    held,
    remove_voter,
    until_asked,
    voters_everywhere,
)


@on_cluster()
async def test_a_follower_is_removed_and_goes_on_as_an_observer(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone = cluster.others(leader)[0]
    rest = tuple(id for id in cluster.voter_ids if id != gone.key.id)
    assert (await remove_voter(cluster, leader, gone.key)).error == ErrorCode.none
    await cluster.wait_until(lambda: voters_everywhere(cluster, *rest))
    for _ in range(60):
        await trio.sleep(0.1)
        assert not isinstance(gone.view.role, Prospective | Candidate)
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    assert leader.view.epoch == 1, "it disturbs nobody"


@pytest.mark.parametrize("others", [1, 2])
def test_a_leader_that_removes_itself_answers_and_resigns(others: int) -> None:
    """Scenario S6; a set of two leaves one voter, which commits by itself."""

    @on_cluster(voters=others + 1)
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        assert (await remove_voter(cluster, leader, leader.key)).error == ErrorCode.none
        await leader.election.view.wait_for(lambda view: isinstance(view.role, Resigned))
        with trio.fail_after(1):
            successor = await cluster.wait_for_leader(other_than=leader)
        assert leader.key.id not in successor.view.voters.ids
        await leader.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        await successor.append([b"value"])
        await cluster.wait_until_alike()
        assert successor.view.epoch == 2

    test()


@on_cluster(voters=3)
async def test_a_leader_outside_its_set_serves_but_does_not_count(cluster: Cluster) -> None:
    """Of {2,3} one follower and the leader are no majority, though they would be of {1,2,3}."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    one, _other = cluster.others(leader)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader, one.key.id):
            asked = beside(nursery, remove_voter, cluster, leader, leader.key)
            await until_asked(0.5)
            assert isinstance(leader.view.role, Leader), "it stays until that has committed"
            assert leader.log.high_watermark != leader.log.end_offset
            assert not asked.answered.is_set()
        assert (await asked.wait()).error == ErrorCode.none
        await leader.election.view.wait_for(lambda view: isinstance(view.role, Resigned))


@on_cluster(observers=1)
async def test_a_leader_that_leaves_begins_no_other_change(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            removal = beside(nursery, remove_voter, cluster, leader, leader.key)
            await until_asked()
            behind = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            end = leader.log.end_offset
        assert (await removal.wait()).error == ErrorCode.none
        assert (await behind.wait()).error == ErrorCode.not_leader_or_follower
    successor = await cluster.wait_for_leader(other_than=leader)
    await cluster.wait_until_alike()
    assert successor.log.epochs.latest_epoch == 2
    assert end <= successor.log.end_offset
    assert 4 not in successor.view.voters.ids


@on_cluster()
async def test_another_cluster_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    response = await remove_voter(cluster, leader, cluster.key_of(3), cluster_id="another")
    assert response.error == ErrorCode.inconsistent_cluster_id
    assert leader.log.voters.voters.ids == (1, 2, 3)


@on_cluster()
async def test_a_node_that_does_not_lead_says_who_does(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    response = await remove_voter(cluster, cluster.others(leader)[0], cluster.key_of(3), client_id="raft-client-2")
    assert response.error == ErrorCode.not_leader_or_follower
    assert f"node {leader.key.id} leads" in str(response.error_message)


@pytest.mark.parametrize(
    ("id", "directory_id"), [(4, UUID(int=4)), (3, UUID(int=3)), (3, UUID(int=0))], ids=["id", "disk", "no disk"]
)
@on_cluster()
async def test_only_exactly_a_voter_is_removed(cluster: Cluster, id: int, directory_id: UUID) -> None:
    leader = await cluster.wait_for_leader()
    response = await remove_voter(cluster, leader, ReplicaKey(id, directory_id))
    assert response.error == ErrorCode.voter_not_found
    assert leader.log.voters.voters.ids == (1, 2, 3)


@on_cluster(voters=1)
async def test_the_last_voter_stays(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    response = await remove_voter(cluster, leader, leader.key)
    assert response.error == ErrorCode.voter_not_found
    assert "the only voter" in str(response.error_message)
    await leader.append([b"value"])


@on_cluster(kraft_version=0)
async def test_static_voters_are_not_removed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    assert (await remove_voter(cluster, leader, cluster.key_of(3))).error == ErrorCode.unsupported_version


@on_cluster(voters=4)
async def test_removals_wait_for_each_other(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    first, second, _ = [node.key for node in cluster.others(leader)]
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            one = beside(nursery, remove_voter, cluster, leader, first)
            await until_asked()
            other = beside(nursery, remove_voter, cluster, leader, second)
            await until_asked()
            assert len(leader.log.voters.voters) == 3, "one at a time"
        assert (await one.wait()).error == ErrorCode.none
        assert (await other.wait()).error == ErrorCode.none
    assert len(leader.log.voters.voters) == 2


@pytest.mark.parametrize("addition_first", [False, True])
@on_cluster(observers=1)
async def test_additions_and_removals_wait_for_each_other(cluster: Cluster, addition_first: bool) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    gone = cluster.others(leader)[0].key
    changes = [(add_voter, cluster.key_of(4)), (remove_voter, gone)]
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = []
            for change, key in changes if addition_first else reversed(changes):
                asked.append(beside(nursery, change, cluster, leader, key))
                await until_asked()
            assert len(leader.log.voters.voters) == (4 if addition_first else 2)
        for one in asked:
            assert (await one.wait()).error == ErrorCode.none
    assert len(leader.log.voters.voters) == 3


@on_cluster(observers=1)
async def test_a_removal_does_not_wait_for_a_missing_candidate(cluster: Cluster) -> None:
    """While a node that is down waits half a minute to be added, another one can be removed."""
    leader = await cluster.wait_for_leader()
    cluster.machines[4].kill()
    async with trio.open_nursery() as nursery:
        addition = beside(nursery, add_voter, cluster, leader, cluster.key_of(4), timeout_ms=30_000)
        await until_asked()
        started = cluster.now_s
        assert (await remove_voter(cluster, leader, cluster.others(leader)[0].key)).error == ErrorCode.none
        assert cluster.now_s - started < 1
        assert not addition.answered.is_set()
        nursery.cancel_scope.cancel()


@on_cluster()
async def test_nothing_is_removed_before_the_epoch_is_committed(cluster: Cluster) -> None:
    """Scenario S1, invariant NoEarlyVoterChange."""
    leader = await elected(cluster)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(nursery, remove_voter, cluster, leader, cluster.others(leader)[0].key)
            await until_asked(0.5)
            assert leader.log.voters.voters.ids == (1, 2, 3)
            assert not asked.answered.is_set()
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster()
async def test_a_removal_has_ten_seconds(cluster: Cluster) -> None:
    """Both that stay are needed, and the leader's own fsync takes longer, while it is in contact with everybody."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.machines[leader.key.id].disk.sync_latency = lambda: 12.0
    started = cluster.now_s
    response = await remove_voter(cluster, leader, cluster.others(leader)[0].key)
    assert response.error == ErrorCode.request_timed_out
    assert response.error_message == f"appended at offset {leader.log.end_offset - 1}: it may still commit"
    assert cluster.now_s - started == pytest.approx(10, abs=0.1)
    await cluster.wait_until(lambda: leader.log.high_watermark == leader.log.end_offset)


@on_cluster(voters=2)
async def test_a_removal_that_does_not_commit_in_time_is_said_to(cluster: Cluster) -> None:
    """The one that stays is down: without it nothing commits, and the leader, which leaves, resigns by check-quorum."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.machines[cluster.others(leader)[0].key.id].kill()
    response = await remove_voter(cluster, leader, leader.key)
    assert response.error == ErrorCode.not_leader_or_follower
    assert f"appended at offset {leader.log.end_offset - 1}, it may still commit" in str(response.error_message)


@on_cluster()
async def test_who_loses_the_leadership_says_whether_it_was_appended(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    first, second = [node.key for node in cluster.others(leader)]
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            appended = beside(nursery, remove_voter, cluster, leader, first)
            await until_asked()
            waiting = beside(nursery, remove_voter, cluster, leader, second)
            await until_asked()
            await leader.election.tell(LeadershipLost(leader.view.stamp, "the test wants it"))
            assert (await appended.wait()).error == ErrorCode.not_leader_or_follower
            assert "may still commit" in appended.answer.error_message
            assert (await waiting.wait()).error == ErrorCode.not_leader_or_follower
            assert "appended" not in waiting.answer.error_message


@on_cluster()
async def test_a_removed_voter_comes_back(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone = cluster.others(leader)[0].key
    assert (await remove_voter(cluster, leader, gone)).error == ErrorCode.none
    assert (await add_voter(cluster, leader, gone)).error == ErrorCode.none
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3))


# Who may campaign, while it is not known whether the newest set is committed


async def restart(cluster: Cluster, node_id: int) -> Node:
    machine = cluster.machines[node_id]
    machine.kill()
    await machine.wait_until_ended()
    node = await machine.start()
    assert node is not None
    return node


@on_cluster()
async def test_a_removed_voter_that_missed_the_commit_disturbs_nobody(cluster: Cluster) -> None:
    """It asks for pre-votes, as its set before may be in force still; nobody grants one while there is a leader."""
    leader = await cluster.wait_for_leader()
    gone, stays = cluster.others(leader)
    assert (await remove_voter(cluster, leader, gone.key)).error == ErrorCode.none
    await cluster.wait_until_alike()
    for others in ({leader.key.id}, {leader.key.id, stays.key.id}):
        cluster.partition({gone.key.id}, others)
        gone = await restart(cluster, gone.key.id)
        assert gone.log.high_watermark is None
        with trio.fail_after(10):
            await gone.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
        await trio.sleep(5)
        cluster.heal()
        with trio.fail_after(5):
            await gone.election.view.wait_for(lambda view: isinstance(view.role, Follower))
        await cluster.wait_until_alike()
        assert leader.view.epoch == gone.view.epoch == 1
    assert gone.log.high_watermark is not None
    cluster.partition({gone.key.id}, {leader.key.id, stays.key.id})
    for _ in range(100):
        await trio.sleep(0.1)
        assert not isinstance(gone.view.role, Prospective | Candidate), "now it knows"


@on_cluster(voters=4)
async def test_a_removed_voter_may_be_needed_to_commit_its_removal(cluster: Cluster) -> None:
    """The leader is lost when only the voter that it removes has the record.  Three of {1,2,3,4} must elect the next
    one, and the removed voter has the longest log, so it must refuse the other two.  They elect it; it commits and
    leaves."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    gone, *rest = cluster.others(leader)
    async with trio.open_nursery() as nursery:
        for node in rest:
            cluster.network.one_way(cluster.machines[leader.key.id].host, cluster.machines[node.key.id].host)
        beside(nursery, remove_voter, cluster, leader, gone.key)
        await cluster.wait_until(lambda: gone.key.id not in gone.log.voters.voters.ids)
        assert all(len(node.log.voters.voters) == 4 for node in rest)
        cluster.machines[leader.key.id].crash("all")
        nursery.cancel_scope.cancel()
    cluster.heal()
    with trio.fail_after(30):
        await gone.election.view.wait_for(lambda view: isinstance(view.role, Leader))
        await gone.election.view.wait_for(lambda view: isinstance(view.role, Resigned))
        await gone.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    successor = await cluster.wait_for_leader()
    assert successor.key in {node.key for node in rest}
    await successor.append([b"value"])
    await cluster.wait_until_alike()
    assert gone.key.id not in successor.view.voters.ids


@on_cluster()
async def test_a_disk_is_replaced_under_its_id(cluster: Cluster) -> None:
    """Scenario S8, KIP-853 "Disk failure recovery": remove the old incarnation, add the new one."""
    leader = await cluster.wait_for_leader()
    old, new = await replace_disk_of_a_follower(cluster, leader)
    assert (await add_voter(cluster, leader, new)).error == ErrorCode.duplicate_voter
    assert (await remove_voter(cluster, leader, old)).error == ErrorCode.none
    assert (await add_voter(cluster, leader, new)).error == ErrorCode.none
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3))
    assert leader.log.voters.voters.is_voter(new)
    assert not leader.log.voters.voters.is_voter(old)


@on_cluster()
async def test_connections_to_a_removed_voter_are_closed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    gone = cluster.others(leader)[0]
    cluster.machines[gone.key.id].kill()
    await cluster.machines[gone.key.id].wait_until_ended()
    await trio.sleep(0.5)
    assert (await remove_voter(cluster, leader, gone.key)).error == ErrorCode.none
    await trio.sleep(3)
    assert cluster.endpoint_of(gone.key.id) not in leader.tree.client._peers


@pytest.mark.parametrize("seed", range(4))
def test_connections_to_a_leader_that_left_are_closed(seed: int) -> None:
    """Although it was asked on for as long as it led, and by its own connections, for appends and for records."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        others = cluster.others(leader)
        async with trio.open_nursery() as nursery:
            with held(cluster, leader):
                asked = beside(nursery, remove_voter, cluster, leader, leader.key)
                await until_asked()
                for node in others:
                    nursery.start_soon(node.append, [b"value"])
                await until_asked()
            assert (await asked.wait()).error == ErrorCode.none
        await cluster.wait_for_leader(other_than=leader)
        await trio.sleep(5)
        for node in others:
            for client in (node.tree.client, node.tree.forwarder):
                assert cluster.endpoint_of(leader.key.id) not in client._peers

    run_on_cluster(test, Setup(seed=seed))
