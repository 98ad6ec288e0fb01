"""A node passes voter changes of clients on to the leader (KIP-853 "AddVoter")."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kraft_trio.actors.peers.answers import Worked
from kraft_trio.actors.peers.change_forwarding import MOST_AT_ONCE, ChangeForwarding
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    REMOVE_RAFT_VOTER,
    TRANSFER_LEADERSHIP,
    UPDATE_FEATURES,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from kraft_trio.wire.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.network.test_listener_admission import at_clients, start_with_client_listener, with_client_listeners
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import RawClient
from tests.support.voter_change_requests import add_voter, beside, held, remove_voter, until_asked

BROKER = 4


def adding(cluster: Cluster, key: ReplicaKey, timeout_ms: int = 10_000) -> AddRaftVoterRequest:
    listeners = Endpoints({LISTENER: cluster.endpoint_of(key.id)})
    return AddRaftVoterRequest(CLUSTER_ID, timeout_ms, key.id, key.directory_id, listeners)


async def add_by_broker(cluster: Cluster, timeout_ms: int = 10_000) -> AddRaftVoterResponse:
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        return await client.ask(ADD_RAFT_VOTER, adding(cluster, cluster.key_of(BROKER), timeout_ms))


async def remove_by_broker(cluster: Cluster, key: ReplicaKey) -> RemoveRaftVoterResponse:
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        return await client.ask(REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(CLUSTER_ID, key.id, key.directory_id))


def a_follower(cluster: Cluster, leader: Node) -> Node:
    return next(node for node in cluster.others(leader) if node.key.id != BROKER)


ENDPOINT = Endpoint("leader", 1)
UPGRADE = UpdateFeaturesRequest(())


class SilentLeader:
    """A client whose requests are never answered."""

    def __init__(self) -> None:
        self.asked = 0

    async def request_apart(self, *_: object) -> None:
        self.asked += 1
        await trio.sleep_forever()


class Refused(NamedTuple):
    error: ErrorCode
    reason: str


@on_cluster(observers=1, started=())
async def test_a_broker_passes_voter_changes_on(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    added = await add_by_broker(cluster)
    assert (added.error, leader.log.voters.voters.ids) == (ErrorCode.none, (1, 2, 3, 4))
    again = await add_by_broker(cluster)
    assert again.error == ErrorCode.duplicate_voter, "the leader's own answer"
    removed = await remove_by_broker(cluster, a_follower(cluster, leader).key)
    assert removed.error == ErrorCode.none
    assert len(leader.log.voters.voters) == 3


@on_cluster(observers=1, kraft_version=0, started=())
async def test_a_broker_passes_an_upgrade_on(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    await trio.sleep(1)
    request = UpdateFeaturesRequest((FeatureUpdate("kraft.version", 1),), 5000)
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        assert (await client.ask(UPDATE_FEATURES, request)).error == ErrorCode.none
    assert leader.log.voters.kraft_version == 1


@on_cluster(observers=1, started=())
async def test_a_broker_passes_a_reassignment_on(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    await cluster.wait_until_alike()
    partition = ReassignedPartition("__cluster_metadata", 0, tuple(map(ReplicaKey, (1, 2, 3, BROKER))))
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        altered = await client.ask(
            ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(10_000, (partition,))
        )
        listed = await client.ask(LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(10_000))
    assert [result.error for result in altered.results] == [ErrorCode.none]
    assert [reassignment.adding for reassignment in listed.reassignments] in ([], [(BROKER,)])
    assert leader.log.voters.target or BROKER in leader.log.voters.voters.ids


@on_cluster(observers=1, started=())
async def test_a_broker_passes_a_transfer_on(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    await cluster.wait_until_alike()
    successor = a_follower(cluster, leader)
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        request = TransferLeadershipRequest(CLUSTER_ID, successor.key.id, 5000)
        assert (await client.ask(TRANSFER_LEADERSHIP, request)).error == ErrorCode.none
    assert await cluster.wait_for_leader(other_than=leader) is successor


@on_cluster(observers=1, started=())
async def test_a_controller_listener_passes_on_who_is_added_and_removed(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    follower = a_follower(cluster, leader)
    assert (await add_voter(cluster, follower, cluster.key_of(BROKER))).error == ErrorCode.none
    assert leader.log.voters.voters.ids == (1, 2, 3, BROKER)
    assert (await remove_voter(cluster, follower, cluster.key_of(BROKER))).error == ErrorCode.none
    assert leader.log.voters.voters.ids == (1, 2, 3)


@on_cluster(observers=1, started=())
async def test_a_controller_listener_names_the_leader_for_a_transfer(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    follower = a_follower(cluster, leader)
    async with RawClient.connected(cluster, follower.key.id) as client:
        refused = await client.ask(TRANSFER_LEADERSHIP, TransferLeadershipRequest(CLUSTER_ID, follower.key.id, 5000))
    assert refused.error == ErrorCode.not_leader_or_follower
    assert f"node {leader.key.id} leads" in str(refused.error_message)


@on_cluster(observers=1, started=())
async def test_a_lost_answer_leaves_it_open(cluster: Cluster) -> None:
    """NOT_LEADER_OR_FOLLOWER would say that another node can be asked, as if nothing had happened."""
    leader = await with_client_listeners(cluster)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(nursery, remove_by_broker, cluster, a_follower(cluster, leader).key)
            await until_asked()
            assert len(leader.log.voters.voters) == 2
            cluster.machines[leader.key.id].kill()
        answer = await asked.wait()
    assert answer.error == ErrorCode.request_timed_out
    assert "the change may have been made" in str(answer.error_message)


@on_cluster(observers=1, started=())
async def test_without_a_known_leader_nothing_is_passed_on(cluster: Cluster) -> None:
    await start_with_client_listener(cluster, BROKER)
    refused = await add_by_broker(cluster)
    assert refused.error == ErrorCode.not_leader_or_follower
    assert "knows no leader" in str(refused.error_message)


@on_cluster(observers=1, started=())
async def test_few_changes_are_passed_on_at_once(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = [
                beside(nursery, remove_by_broker, cluster, a_follower(cluster, leader).key)
                for _ in range(MOST_AT_ONCE + 1)
            ]
            await until_asked()
            refused = [each.answer for each in asked if each.answered.is_set()]
            assert [answer.error for answer in refused] == [ErrorCode.request_timed_out]
        answers = [await each.wait() for each in asked]
    assert [answer.error for answer in answers].count(ErrorCode.none) == 1


async def test_requests_that_arrive_together_count_as_well() -> None:
    client = SilentLeader()
    forwarding = ChangeForwarding(client)  # type: ignore[arg-type]
    answers = [forwarding.forward(ENDPOINT, UPDATE_FEATURES, UPGRADE, 1000, Refused) for _ in range(MOST_AT_ONCE + 1)]
    async with trio.open_nursery() as nursery:
        for answer in answers:
            assert isinstance(answer, Worked)
            nursery.start_soon(answer.work)
        await wait_all_tasks_blocked()
        assert client.asked == MOST_AT_ONCE
        assert [answer.response()[0] for answer in answers if answer.is_ready] == [ErrorCode.request_timed_out]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("timeout_ms", [0, -1])
@on_cluster(observers=1, started=())
async def test_a_broker_refuses_what_no_leader_takes(cluster: Cluster, timeout_ms: int) -> None:
    await with_client_listeners(cluster)
    assert (await add_by_broker(cluster, timeout_ms)).error == ErrorCode.invalid_request


@on_cluster(observers=1, started=())
async def test_a_list_request_with_a_negative_timeout_is_passed_on(cluster: Cluster) -> None:
    await with_client_listeners(cluster)
    await cluster.wait_until_alike()
    async with RawClient.connected(cluster, BROKER, at_clients(BROKER)) as client:
        listed = await client.ask(LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(-(2**31)))
    assert listed.error == ErrorCode.none
