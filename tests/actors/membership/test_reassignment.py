"""Reassignment to a target set, over the wire (KIP-642)."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.membership.reassignment import Reassignment
from kraft_trio.messages import LeadershipLost
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import ALTER_PARTITION_REASSIGNMENTS, DESCRIBE_QUORUM, LIST_PARTITION_REASSIGNMENTS
from kraft_trio.wire.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignedPartition,
    ReassignmentResult,
)
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingReassignment,
)
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.network.test_many_elements import calls_counted
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import STRANGER
from tests.support.voter_change_requests import add_voter, ask, held, remove_voter, voters_everywhere

TOPIC = "__cluster_metadata"


async def alter(
    cluster: Cluster,
    node: Node,
    target: tuple[int | ReplicaKey, ...] | None,
    *,
    partition: int = 0,
    timeout_ms: int = 10_000,
    may_change_count: bool = True,
) -> AlterPartitionReassignmentsResponse:
    replicas = None if target is None else tuple(it if isinstance(it, ReplicaKey) else ReplicaKey(it) for it in target)
    partitions = (ReassignedPartition(TOPIC, partition, replicas),)
    request = AlterPartitionReassignmentsRequest(timeout_ms, partitions, may_change_count)
    return await ask(cluster, node, ALTER_PARTITION_REASSIGNMENTS, request)


async def reassign(cluster: Cluster, node: Node, *target: int | ReplicaKey) -> ReassignmentResult:
    """Ask for the result of our partition."""
    response = await alter(cluster, node, target)
    assert response.error == ErrorCode.none, response
    (result,) = response.results
    return result


async def cancel(cluster: Cluster, node: Node) -> ReassignmentResult:
    (result,) = (await alter(cluster, node, None)).results
    return result


async def accepted(cluster: Cluster, node: Node, *target: int | ReplicaKey) -> None:
    result = await reassign(cluster, node, *target)
    assert (result.error, result.error_message) == (ErrorCode.none, None)


async def status_of(cluster: Cluster, node: Node) -> str | None:
    return (await ask(cluster, node, DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))).reassignment_status


def is_over(cluster: Cluster, *ids: int) -> bool:
    return voters_everywhere(cluster, *ids) and not any(node.log.voters.target for node in cluster.nodes.values())


def reassignment_status(leader: Node) -> str | None:
    assert leader.election.leading is not None
    return leader.election.leading.reassignment_status


def make_unfit(cluster: Cluster, id: int, *, is_unfit: bool = True) -> None:
    """Let a node fetch and answer, but never become a voter."""
    cluster.network.cap_versions(cluster.machines[id].host, {}, kraft_version=0 if is_unfit else 1)


# The way to the target


@on_cluster(observers=2)
async def test_nobody_is_late_only_because_the_leader_is_new(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for id in (4, 5):
        make_unfit(cluster, id)
    await accepted(cluster, leader, 1, 2, 3, 4, 5)
    await trio.sleep(1)
    said: list[str] = []
    monkeypatch.setattr(Reassignment, "_tell", lambda _self, status: said.append(status))
    await leader.election.tell(LeadershipLost(leader.view.stamp, "for the test"))
    await cluster.wait_for_leader(other_than=leader)
    await trio.sleep(5)
    assert said
    assert [status for status in said if "caught up" in status or "fetch" in status] == []


@on_cluster(observers=3)
async def test_three_voters_are_exchanged_with_one_election(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    epoch = leader.view.epoch
    await accepted(cluster, leader, 4, 5, 6)
    assert [key.id for key in leader.log.voters.target] == [4, 5, 6]
    await cluster.wait_until(lambda: is_over(cluster, 4, 5, 6))
    final = await cluster.wait_for_leader()
    assert final.view.epoch == epoch + 1
    added = final.log.voters.voters.get(4)
    assert added == cluster.config_of(4).as_voter(cluster.key_of(4).directory_id), "as AddRaftVoter makes it"


@on_cluster(voters=1, observers=4)
async def test_one_voter_becomes_five(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await accepted(cluster, leader, 1, 2, 3, 4, 5)
    await cluster.wait_until(lambda: is_over(cluster, 1, 2, 3, 4, 5))
    assert cluster.leader() is leader


@on_cluster(voters=5)
async def test_five_voters_become_the_one_that_does_not_lead(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    last = cluster.others(leader)[0].key.id
    await accepted(cluster, leader, last)
    await cluster.wait_until(lambda: is_over(cluster, last))


@on_cluster()
async def test_the_voters_in_force_are_no_new_target(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    await accepted(cluster, leader, 3, 2, 1)
    assert leader.log.end_offset == end


@on_cluster(observers=3)
async def test_the_next_leader_goes_on(cluster: Cluster) -> None:
    """Each leader is deposed after its first step."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await accepted(cluster, leader, 4, 5, 6)
    for _ in range(3):
        leader = await cluster.wait_for_leader()
        before = leader.log.voters.voters_offset
        await cluster.wait_until(lambda node=leader, offset=before: node.log.voters.voters_offset != offset)  # type: ignore[misc]
        await leader.election.tell(LeadershipLost(leader.view.stamp, "the test wants it"))
    await cluster.wait_until(lambda: is_over(cluster, 4, 5, 6))


@on_cluster(observers=1)
async def test_a_target_that_is_cut_off_is_gone(cluster: Cluster) -> None:
    """The target is part of the log, so a truncation takes it back."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    others = [node.key.id for node in cluster.others(leader)]
    cluster.partition([leader.key.id, 4], others)
    await alter(cluster, leader, (1, 2, 3, 4), timeout_ms=500)
    assert leader.log.voters.target
    await cluster.wait_for_leader(other_than=leader)
    cluster.heal()
    await cluster.wait_until_alike()
    assert is_over(cluster, 1, 2, 3)


# Waits


@on_cluster(observers=1)
async def test_a_newcomer_that_is_down_is_waited_for(cluster: Cluster) -> None:
    """It stays the target, DescribeQuorum says why, and no voter goes before it comes."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    kept = sorted({1, 2, 3} - {cluster.others(leader)[0].key.id})
    make_unfit(cluster, 4)
    await accepted(cluster, leader, *kept, 4)
    cluster.machines[4].kill()
    await trio.sleep(10)
    assert leader.log.voters.voters.ids == (1, 2, 3)
    status = str(await status_of(cluster, leader))
    assert f"waiting for {cluster.key_of(4)}, which does not fetch" in status
    make_unfit(cluster, 4, is_unfit=False)
    await cluster.machines[4].start()
    await cluster.wait_until(lambda: is_over(cluster, *kept, 4))


@on_cluster(observers=1)
async def test_a_newcomer_that_lags_is_waited_for(cluster: Cluster) -> None:
    """It answers, and its fetches do not arrive."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    make_unfit(cluster, 4)
    await accepted(cluster, leader, 1, 2, 3, 4)
    cluster.network.answers_only(cluster.machines[4].host, cluster.machines[leader.key.id].host)
    await leader.append([b"what 4 has not got"])
    await trio.sleep(5)
    make_unfit(cluster, 4, is_unfit=False)
    await trio.sleep(5)
    assert leader.log.voters.voters.ids == (1, 2, 3)
    cluster.heal()
    await cluster.wait_until(lambda: is_over(cluster, 1, 2, 3, 4))


@on_cluster(observers=2)
async def test_a_newcomer_that_is_too_old_holds_up_none(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    make_unfit(cluster, 4)
    await accepted(cluster, leader, 1, 2, 3, 4, 5)
    await cluster.wait_until(lambda: leader.log.voters.voters.ids == (1, 2, 3, 5))
    await trio.sleep(5)
    assert leader.log.voters.voters.ids == (1, 2, 3, 5)
    reason = f"waiting for {cluster.key_of(4)}, which supports kraft.version 0 to 0, it is 1"
    await cluster.wait_until(lambda: reassignment_status(leader) == reason)


@pytest.mark.parametrize(
    "listeners",
    [
        Endpoints([(f"L{number}", Endpoint("h", 1)) for number in range(17)]),
        Endpoints({"CONTROLLER": Endpoint("h" * 256, 1)}),
        Endpoints({"L" * 256: Endpoint("h", 1)}),
    ],
)
def test_listeners_beyond_the_limits_are_not_kept(listeners: Endpoints) -> None:
    """A stranger's Fetch may have megabytes of them, and the leader remembers a thousand replicas."""
    progress = ProgressTable(ReplicaKey(1), epoch_started_s=0)
    progress.fetched(STRANGER, 0, leader_end_offset=0, now_s=0, listeners=listeners)
    (observer,) = progress.observers(VoterSet()).values()
    assert not len(observer.listeners)


@on_cluster(observers=1)
async def test_a_leader_that_nobody_can_follow_seldom_hands_over(cluster: Cluster) -> None:
    """The others reach nobody but the leader, so they can only elect it again."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    others = [id for id in (1, 2, 3, 4) if id != leader.key.id]
    for one in others:
        cluster.partition([one], [other for other in others if other != one])
    before = leader.view.epoch
    await accepted(cluster, leader, *others)
    await trio.sleep(60)
    assert before + 2 <= leader.view.epoch <= before + 12
    assert "it tries again later" in str(reassignment_status(leader))
    cluster.heal()
    await cluster.wait_until(lambda: is_over(cluster, *others), within_s=300)


# Other changes meanwhile


@on_cluster(observers=2)
async def test_other_changes_are_refused_until_it_is_cancelled(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    make_unfit(cluster, 4)
    await accepted(cluster, leader, 1, 2, 3, 4)
    removed = await remove_voter(cluster, leader, cluster.others(leader)[0].key)
    assert removed.error == ErrorCode.reassignment_in_progress
    assert f"{cluster.key_of(4)}: wait for it, or cancel it" in str(removed.error_message)
    added = await add_voter(cluster, leader, cluster.key_of(5))
    assert added.error == ErrorCode.reassignment_in_progress
    assert (await cancel(cluster, leader)).error == ErrorCode.none
    await cluster.wait_until(lambda: is_over(cluster, 1, 2, 3))
    assert (await add_voter(cluster, leader, cluster.key_of(5))).error == ErrorCode.none


@on_cluster(observers=3)
async def test_naming_the_old_set_takes_it_back(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await accepted(cluster, leader, 4, 5, 6)
    await cluster.wait_until(lambda: 5 in leader.log.voters.voters.ids)
    await cluster.wait_until(lambda: len(cluster.nodes) == 6)
    leader = await cluster.wait_for_leader()
    await accepted(cluster, leader, 1, 2, 3)
    await cluster.wait_until(lambda: is_over(cluster, 1, 2, 3))


@on_cluster(observers=3)
async def test_a_cancelled_one_leaves_the_voters_as_they_are(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await accepted(cluster, leader, 4, 5, 6)
    await cluster.wait_until(lambda: 4 in leader.log.voters.voters.ids)
    assert (await cancel(cluster, leader)).error == ErrorCode.none
    voters = leader.log.voters.voters.ids
    assert 4 in voters
    await trio.sleep(10)
    assert is_over(cluster, *voters)
    again = await cancel(cluster, leader)
    assert again.error == ErrorCode.no_reassignment_in_progress


@on_cluster(observers=1)
async def test_it_can_be_asked_for_again(cluster: Cluster) -> None:
    """A client that heard no answer repeats its request, though the newcomer is down by then."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    make_unfit(cluster, 4)
    await accepted(cluster, leader, 1, 2, 3, 4)
    cluster.machines[4].kill()
    await trio.sleep(5)
    end = leader.log.end_offset
    await accepted(cluster, leader, 4, 3, 2, 1)
    assert leader.log.end_offset == end


@on_cluster(observers=1)
async def test_the_answer_waits_for_the_commit_of_the_target(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    with held(cluster, leader):
        response = await alter(cluster, leader, (1, 2, 3, 4), timeout_ms=300)
        (result,) = response.results
        assert result.error == ErrorCode.request_timed_out
        assert "it may still commit" in str(result.error_message)
        assert leader.log.voters.voters.ids == (1, 2, 3), "no step before"


# What is listed


@on_cluster(observers=2)
async def test_listed_while_it_lasts(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    nothing = await ask(cluster, leader, LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(1000))
    assert nothing.reassignments == ()
    make_unfit(cluster, 4)
    await accepted(cluster, leader, 1, 2, 4)
    ongoing = OngoingReassignment(TOPIC, 0, replicas=(1, 2, 3, 4), adding=(4,), removing=(3,))
    for partitions, listed in ((None, (ongoing,)), (((TOPIC, 0),), (ongoing,)), ((("other", 0),), ())):
        request = ListPartitionReassignmentsRequest(1000, partitions)
        assert (await ask(cluster, leader, LIST_PARTITION_REASSIGNMENTS, request)).reassignments == listed
    described = await ask(cluster, leader, DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
    assert [replica.key.id for replica in described.target_voters] == [1, 2, 4]


# What is refused


@on_cluster(observers=1)
async def test_only_the_leader_reassigns_and_lists(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower = cluster.others(leader)[0]
    refused = await alter(cluster, follower, (1, 2))
    assert refused.error == ErrorCode.not_controller
    assert f"node {leader.key.id} leads epoch 1" in str(refused.error_message)
    listed = await ask(cluster, follower, LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(1000))
    assert listed.error == ErrorCode.not_controller


@pytest.mark.parametrize(
    ("target", "complaint"),
    [((), "no voters"), ((1, 1), "expected each id once"), ((1, 9), "replica 9 is unknown to the leader")],
)
@on_cluster()
async def test_useless_targets_are_refused(cluster: Cluster, target: tuple[int, ...], complaint: str) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    result = await reassign(cluster, leader, *target)
    assert result.error == ErrorCode.invalid_replica_assignment
    assert complaint in str(result.error_message)
    assert leader.log.end_offset == end


@on_cluster(kraft_version=0)
async def test_static_voters_are_not_reassigned(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    result = await reassign(cluster, leader, 1, 2)
    assert result.error == ErrorCode.unsupported_version
    assert "kraft.version is 0" in str(result.error_message)


@on_cluster()
async def test_other_partitions_are_unknown(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    (result,) = (await alter(cluster, leader, (1, 2), partition=1)).results
    assert result.error == ErrorCode.unknown_topic_or_partition


@on_cluster()
async def test_many_partitions_are_refused_in_linear_time(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    ours, other = (ReassignedPartition(TOPIC, partition, (ReplicaKey(1),)) for partition in (0, 1))
    request = AlterPartitionReassignmentsRequest(1000, (*[ours] * 450, *[other] * 450))
    with calls_counted() as calls:
        refused = await ask(cluster, leader, ALTER_PARTITION_REASSIGNMENTS, request)
    assert refused.error == ErrorCode.invalid_request
    assert "450 targets" in str(refused.error_message)
    assert calls.count < 100_000


@on_cluster()
async def test_another_number_of_voters_may_be_ruled_out(cluster: Cluster) -> None:
    """KIP-860."""
    leader = await cluster.wait_for_leader()
    (result,) = (await alter(cluster, leader, (1, 2), may_change_count=False)).results
    assert result.error == ErrorCode.invalid_replication_factor
    assert "2 voters, expected 3" in str(result.error_message)


@on_cluster()
async def test_a_reassignment_needs_time(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    refused = await alter(cluster, leader, (1, 2), timeout_ms=0)
    assert refused.error == ErrorCode.invalid_request
    assert "timeout 0 ms" in str(refused.error_message)
