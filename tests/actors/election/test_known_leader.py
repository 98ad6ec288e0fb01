"""Which leader a node names: one that it knows, also if it has lost it (Kafka's `leaderId()`)."""

from __future__ import annotations

import trio

from kraft_trio.node import Node
from kraft_trio.protocol.roles import Follower, Leader, Prospective, Resigned
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.wire.api import FETCH_SNAPSHOT, UPDATE_RAFT_VOTER
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import STRANGER, TOPIC, RawClient

Named = tuple[int, Endpoint | None]


async def named_to(cluster: Cluster, node: Node, asker: ReplicaKey) -> dict[str, Named]:
    """The leader in the node's answers to requests of that replica, by API."""
    epoch = node.view.epoch
    async with RawClient.connected(cluster, node.key.id) as client:
        fetch = await client.fetch(0, epoch=epoch, last_fetched_epoch=0, replica=asker)
        piece = await client.ask(
            FETCH_SNAPSHOT,
            FetchSnapshotRequest(CLUSTER_ID, asker.id, 1, TOPIC, 0, epoch, OffsetAndEpoch(1, 1), 0, asker.directory_id),
        )
        update = await client.ask(
            UPDATE_RAFT_VOTER,
            UpdateRaftVoterRequest(CLUSTER_ID, epoch, asker.id, asker.directory_id, Endpoints(), VersionRange(0, 1)),
        )
        vote = await client.vote(asker, epoch, (0, 0), pre_vote=True, receiver=node.key)
    return {
        "Fetch": (fetch.leader_id, None),
        "FetchSnapshot": (piece.leader_id, piece.leader_endpoint),
        "UpdateRaftVoter": (update.leader_id, update.leader_endpoint),
        "Vote": (vote.leader_id, vote.leader_endpoint),
    }


async def without_majority(cluster: Cluster) -> tuple[Node, Node]:
    """The leader, which is dead, and a Prospective that has lost it and cannot win."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    lost, other = cluster.others(leader)
    for node in (leader, other):
        cluster.machines[node.key.id].kill()
    await lost.election.view.wait_for(lambda view: isinstance(view.role, Prospective))
    return leader, lost


@on_cluster()
async def test_a_node_names_the_leader_that_it_has_lost(cluster: Cluster) -> None:
    """To replicas and in its metric, as Kafka's `leaderIdOrSentinel()` and `current-leader` do."""
    leader, lost = await without_majority(cluster)
    assert lost.metrics.values()["current-leader"] == leader.key.id
    endpoint = cluster.endpoint_of(leader.key.id)
    assert await named_to(cluster, lost, STRANGER) == {
        "Fetch": (leader.key.id, None),
        "FetchSnapshot": (leader.key.id, endpoint),
        "UpdateRaftVoter": (leader.key.id, endpoint),
        "Vote": (leader.key.id, endpoint),
    }


@on_cluster()
async def test_a_lost_leader_is_not_named_to_itself(cluster: Cluster) -> None:
    """It may have lost its state with its disk.  A node of Kafka's ends when it is told that it leads."""
    leader, lost = await without_majority(cluster)
    assert set((await named_to(cluster, lost, leader.key)).values()) == {(-1, None)}


@on_cluster()
async def test_clients_are_not_sent_to_a_lost_leader(cluster: Cluster) -> None:
    """They look for another one, and the node does not pass their requests on."""
    _leader, lost = await without_majority(cluster)
    async with RawClient.connected(cluster, lost.key.id) as client:
        assert (await client.fetch(0)).leader_id == -1
    assert lost.view.leader_id is None


@on_cluster()
async def test_a_follower_and_a_leader_name_the_leader_to_all(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    named = (leader.key.id, cluster.endpoint_of(leader.key.id))
    for node in (leader, *cluster.others(leader)):
        for asker in (STRANGER, leader.key):
            answers = await named_to(cluster, node, asker)
            assert answers["Vote"] == answers["FetchSnapshot"] == named, (type(node.view.role), asker)


@on_cluster()
async def test_a_leader_that_has_resigned_names_itself(cluster: Cluster) -> None:
    """It leads its epoch until there is a newer one, as in Kafka.  Nothing is sent to it meanwhile."""
    leader = await cluster.wait_for_leader()
    seen: list[tuple[int | None, float | str]] = []
    leader.election.view.subscribe(
        lambda view: (
            seen.append((view.leader_id, leader.metrics.values()["current-leader"]))
            if isinstance(view.role, Resigned)
            else None
        )
    )
    cluster.partition({leader.key.id}, {node.key.id for node in cluster.others(leader)})
    await leader.election.view.wait_for(lambda view: isinstance(view.role, Resigned))
    assert seen == [(None, leader.key.id)]
    async with RawClient.connected(cluster, leader.key.id) as client:
        vote = await client.vote(STRANGER, leader.view.epoch, (0, 0), pre_vote=True, receiver=leader.key)
    assert (vote.leader_id, vote.leader_endpoint) == (leader.key.id, cluster.endpoint_of(leader.key.id))


@on_cluster(voters=1, observers=1)
async def test_an_observer_names_a_leader_that_it_cannot_reach(cluster: Cluster) -> None:
    """An observer never campaigns: it looks for the leader that it last knew, until a newer one is told."""
    leader = await cluster.wait_for_leader()
    observer = cluster.nodes[2]
    await observer.election.view.wait_for(lambda view: isinstance(view.role, Follower))
    cluster.machines[leader.key.id].kill()
    await trio.sleep(20)
    assert observer.metrics.values()["current-leader"] == leader.key.id
    assert (await named_to(cluster, observer, STRANGER))["Vote"][0] == leader.key.id
    assert not isinstance(observer.view.role, Leader)
