"""A listener for clients takes nothing that only replicas ask for (controller.listener.names)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from kraft_trio.actors.election.vote_round import VoteRound
from kraft_trio.actors.peers.voter_addresses import VoterAddresses
from kraft_trio.config.values import NamedListener
from kraft_trio.errors import ApiNotServedError, NetworkError
from kraft_trio.messages import Stamp
from kraft_trio.node import Node
from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.roles import Prospective
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.wire.api import (
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    DISCOVER_VOTERS,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    METADATA,
    UPDATE_RAFT_VOTER,
    VOTE,
    advertised_ranges,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.test_rules import vote_request
from tests.support.epoch_context import lone_epoch
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import STRANGER, TOPIC, TOPIC_ID, RawClient, batch_of

NOBODY = UUID(int=0)
CLIENTS = 9099
"""Port of each node's listener for clients."""


def at_clients(node_id: int) -> Endpoint:
    return Endpoint(f"node-{node_id}", CLIENTS)


async def start_with_client_listener(cluster: Cluster, node_id: int) -> None:
    config = cluster.config_of(node_id)
    both = (*config.listeners, NamedListener("CLIENT", at_clients(node_id)))
    cluster._configs[node_id] = attrs.evolve(config, listeners=both, advertised_listeners=both)
    await cluster.machines[node_id].start()


async def with_client_listeners(cluster: Cluster) -> Node:
    """Start every machine with a listener for clients besides; the leader."""
    for node_id in cluster.machines:
        await start_with_client_listener(cluster, node_id)
    leader = await cluster.wait_for_leader()
    await leader.append([b"first"])
    await cluster.wait_until_alike()
    return leader


def forged(leader: Node, victim: ReplicaKey) -> dict[str, tuple[Any, Any]]:
    """What a stranger sends that knows all that DescribeQuorum tells, by what it would do."""
    epoch, end = leader.view.epoch, leader.log.end
    partition = FetchPartition(
        TOPIC,
        TOPIC_ID,
        0,
        end.offset + 1,
        2**20,
        current_leader_epoch=epoch,
        last_fetched_epoch=end.epoch,
        replica_directory_id=victim.directory_id,
    )
    elsewhere = Endpoints({"CONTROLLER": Endpoint("elsewhere", 1)})
    return {
        "vote": (VOTE, vote_request(STRANGER, epoch + 1, end.offset, epoch)),
        "begin": (
            BEGIN_QUORUM_EPOCH,
            BeginQuorumEpochRequest(CLUSTER_ID, -1, TOPIC, 0, NOBODY, STRANGER.id, epoch + 1, elsewhere),
        ),
        "end": (END_QUORUM_EPOCH, EndQuorumEpochRequest(CLUSTER_ID, TOPIC, 0, STRANGER.id, epoch + 1)),
        "fetch": (FETCH, FetchRequest(CLUSTER_ID, victim.id, max_wait_ms=0, partitions=(partition,))),
        "piece": (
            FETCH_SNAPSHOT,
            FetchSnapshotRequest(CLUSTER_ID, victim.id, 1, TOPIC, 0, epoch, OffsetAndEpoch(1, 1), 0),
        ),
        "update": (
            UPDATE_RAFT_VOTER,
            UpdateRaftVoterRequest(CLUSTER_ID, epoch, victim.id, victim.directory_id, elsewhere, VersionRange(0, 1)),
        ),
        "discover": (
            DISCOVER_VOTERS,
            DiscoverVotersRequest(CLUSTER_ID, (Advertisement(victim, 1, epoch, elsewhere),)),
        ),
    }


@pytest.mark.parametrize("what", ["vote", "begin", "end", "fetch", "piece", "update", "discover"])
@on_cluster(started=())
async def test_a_client_listener_closes_on_replicas_requests(cluster: Cluster, what: str) -> None:
    leader = await with_client_listeners(cluster)
    stamp, victim = leader.view.stamp, cluster.others(leader)[0].key
    api, request = forged(leader, victim)[what]
    async with RawClient.connected(cluster, leader.key.id, at_clients(leader.key.id)) as client:
        # A stranger asks whether it is advertised or not.
        advertised = {known.key: known for known in advertised_ranges()}
        client.connection.peer_versions = advertised
        with pytest.raises((NetworkError, ApiNotServedError)):
            await client.ask(api, request)
    await leader.append([b"goes on"])
    assert leader.view.stamp == stamp


@on_cluster(started=())
async def test_a_client_listener_advertises_what_clients_use(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    for what, (api, request) in forged(leader, cluster.others(leader)[0].key).items():
        async with RawClient.connected(cluster, leader.key.id, at_clients(leader.key.id)) as client:
            error = NetworkError if what in ("fetch", "piece") else ApiNotServedError
            with pytest.raises(error):
                await client.ask(api, request)


@on_cluster(started=())
async def test_clients_are_served_on_their_listener(cluster: Cluster) -> None:
    """They are sent to other nodes' listeners of the same name, never to where the quorum talks."""
    leader = await with_client_listeners(cluster)
    for node_id in cluster.voter_ids:
        async with RawClient.connected(cluster, node_id, at_clients(node_id)) as client:
            metadata = await client.ask(METADATA, MetadataRequest(None))
            described = await client.ask(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
            assert (await client.init_producer_id()).error == ErrorCode.none
        assert {broker.endpoint for broker in metadata.brokers} == set(map(at_clients, cluster.voter_ids))
        assert described.leader_id == leader.key.id
    async with RawClient.connected(cluster, leader.key.id, at_clients(leader.key.id)) as client:
        assert (await client.produce(batch_of(b"value"))).error == ErrorCode.none
        assert (await client.fetch(leader.log.end_offset - 1)).records


class PeersThatListenForClients:
    """Stands in for NetworkClient: Vote is not served where it is asked for."""

    async def request(self, *_arguments: Any) -> Any:
        raise ApiNotServedError("Vote: the peer does not serve it")


@on_cluster(started=())
async def test_an_address_for_clients_is_no_old_voter(cluster: Cluster) -> None:
    """A voter that is too old to know pre-votes makes one a candidate at once; this one is merely not reached."""
    epoch = lone_epoch(cluster, 1, Stamp(3, 1))
    addresses = VoterAddresses(PeersThatListenForClients(), LISTENER)  # type: ignore[arg-type]
    context = attrs.evolve(epoch.context, addresses=addresses)
    with trio.move_on_after(1):
        role = Prospective(context.epoch)
        await VoteRound(context, role, log_end=context.log.end, voters=cluster.initial_voters).run()
    assert epoch.told == []
    await context.log.close()
