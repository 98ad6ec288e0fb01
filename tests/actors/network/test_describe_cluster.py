"""DescribeCluster and Metadata: how a client that was given some nodes finds the others, and the one that leads."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest
import trio

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER, PORT
from kraft_trio.wire.api import DESCRIBE_CLUSTER, DESCRIBE_QUORUM, METADATA
from kraft_trio.wire.apis.describe_cluster import BROKERS, CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.describe_quorum import CLUSTER_METADATA, DescribeQuorumRequest, QuorumNode
from kraft_trio.wire.apis.metadata import Broker, MetadataRequest, MetadataTopic
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.membership.test_shared_node_id import run_stray
from tests.actors.network.test_listener_admission import at_clients, start_with_client_listener, with_client_listeners
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, RawClient
from tests.support.timing import set_timing
from tests.support.voter_change_requests import ask, held, observers_of, remove_voter


@pytest.mark.parametrize("endpoint_type", [BROKERS, CONTROLLERS])
@on_cluster(observers=1)
async def test_every_voter_names_all_of_them_and_the_leader(cluster: Cluster, endpoint_type: int) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        answer = await ask(cluster, node, DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type))
        assert (answer.error, answer.endpoint_type) == (ErrorCode.none, endpoint_type)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, leader.key.id)
        ids = (1, 2, 3, 4) if node is leader else (1, 2, 3)
        assert answer.brokers == tuple(Broker(id, cluster.endpoint_of(id)) for id in ids)


@on_cluster()
async def test_who_was_removed_and_stopped_is_not_named(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone, other = (node.key for node in cluster.others(leader))
    assert (await remove_voter(cluster, leader, gone)).error == ErrorCode.none
    cluster.machines[gone.id].kill()
    await trio.sleep(5)
    answer = await ask(cluster, leader, DESCRIBE_CLUSTER, DescribeClusterRequest(CONTROLLERS))
    assert {broker.id for broker in answer.brokers} == {leader.key.id, other.id}


@on_cluster()
async def test_nobody_is_named_as_leader_without_one(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    [first, second] = cluster.others(leader)
    for node in (leader, second):
        cluster.machines[node.key.id].kill()
    await cluster.wait_until(lambda: first.view.leader_id is None, within_s=10)
    answer = await ask(cluster, first, DESCRIBE_CLUSTER, DescribeClusterRequest(CONTROLLERS))
    assert (answer.error, answer.controller_id) == (ErrorCode.none, -1)
    assert {broker.id for broker in answer.brokers} == {1, 2, 3}


@on_cluster(voters=1)
async def test_an_unknown_kind_of_node_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    answer = await ask(cluster, leader, DESCRIBE_CLUSTER, DescribeClusterRequest(3))
    assert answer.error == ErrorCode.unsupported_endpoint_type
    assert answer.error_message == "endpoint type 3: expected 1 (brokers) or 2 (controllers)"
    assert answer.brokers == ()


@on_cluster(observers=1, started=())
async def test_many_who_ask_a_follower_for_the_nodes_share_its_questions(cluster: Cluster) -> None:
    """Anybody may ask, and whatever else is passed on to the leader would wait behind all their questions."""
    await with_client_listeners(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    set_timing(cluster, latency_s=0.01)
    follower = cluster.others(leader)[0].key.id
    asked = (cluster.machines[follower].host, DESCRIBE_QUORUM.key)
    before = cluster.network.requests_sent[asked]
    named: list[set[int]] = []

    async def ask_often() -> None:
        async with RawClient.connected(cluster, follower, at_clients(follower)) as client:
            for _ in range(5):
                answer = await client.ask(METADATA, MetadataRequest(topics=()))
                named.append({broker.id for broker in answer.brokers})

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask_often)
    assert named == [{1, 2, 3, 4}] * 100
    assert 1 <= cluster.network.requests_sent[asked] - before <= 25


@on_cluster(observers=1, started=(), settings={"controller.quorum.request.timeout.ms": "8000"})
async def test_who_waits_to_ask_asks_the_leader_of_then(cluster: Cluster) -> None:
    """The first question goes to a leader that is cut off.  The next one goes to its successor."""
    await with_client_listeners(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    lost, follower = leader.key.id, cluster.others(leader)[0].key.id
    asked = (cluster.machines[follower].host, DESCRIBE_QUORUM.key)
    named: list[set[int]] = []

    async def ask_once() -> None:
        async with RawClient.connected(cluster, follower, at_clients(follower)) as client:
            answer = await client.ask(METADATA, MetadataRequest(topics=()))
            named.append({broker.id for broker in answer.brokers})

    await ask_once()
    cluster.partition([lost], [id for id in cluster.machines if id != lost], silent=True)
    before = cluster.network.requests_sent[asked]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_once)
        await cluster.wait_until(lambda: cluster.network.requests_sent[asked] > before)
        nursery.start_soon(ask_once)
    assert cluster.nodes[follower].view.leader_id not in (None, lost)
    assert {1, 2, 3, 4} in named[1:]


# Nodes that serve no clients


async def named_for_topic(cluster: Cluster, node_id: int, endpoint: Endpoint | None = None) -> list[int]:
    """The ids of the nodes that Metadata names, whether it asks for a topic or not."""
    async with RawClient.connected(cluster, node_id, endpoint) as client:
        of_topic = await client.ask(METADATA, MetadataRequest(topics=(MetadataTopic(TOPIC),)))
        of_none = await client.ask(METADATA, MetadataRequest(topics=()))
    assert of_topic.brokers == of_none.brokers
    [partition] = of_topic.topics[0].partitions
    assert partition.replicas == (1, 2, 3)
    return [broker.id for broker in of_topic.brokers]


@on_cluster(kafka_replicas=(3,))
async def test_a_voter_of_kafka_is_named_to_admin_clients_only(cluster: Cluster) -> None:
    await parse_step("elect 1").take(cluster)
    await cluster.wait_until_alike()
    assert await named_for_topic(cluster, 1) == [1, 2]
    answer = await ask(cluster, cluster.nodes[1], DESCRIBE_CLUSTER, DescribeClusterRequest(BROKERS))
    assert [broker.id for broker in answer.brokers] == [1, 2, 3]


@on_cluster(kafka_replicas=(3,))
async def test_a_leader_of_kafka_is_named(cluster: Cluster) -> None:
    await parse_step("elect 1").take(cluster)
    await cluster.wait_until_alike()
    await parse_step("elect 3").take(cluster)
    await cluster.wait_until_alike()
    assert await named_for_topic(cluster, 1) == [1, 2, 3]


@on_cluster(started=())
async def test_who_lacks_the_listener_for_clients_is_not_named_there(cluster: Cluster) -> None:
    await cluster.machines[3].start()
    for node_id in (1, 2):
        await start_with_client_listener(cluster, node_id)
    await parse_step("elect 1").take(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until(lambda: [len(voter.endpoints) for voter in leader.view.voters] == [2, 2, 1])
    await cluster.wait_until_alike()
    for node_id in (1, 2):
        assert await named_for_topic(cluster, node_id, at_clients(node_id)) == [1, 2]


@on_cluster(started=())
async def test_who_is_asked_names_itself_before_the_voters_record_has_its_listener(cluster: Cluster) -> None:
    """Else the client would know nobody once the others that are named are gone."""
    await start_with_client_listener(cluster, 1)
    for node_id in (2, 3):
        await cluster.machines[node_id].start()
    await parse_step("elect 1").take(cluster)
    leader = await cluster.wait_for_leader()
    await cluster.wait_until(lambda: [len(voter.endpoints) for voter in leader.view.voters] == [2, 1, 1])
    await cluster.wait_until_alike()
    cluster.machines[2].kill()
    cluster.partition([2], [1, 3])
    await start_with_client_listener(cluster, 2)
    assert await named_for_topic(cluster, 2, at_clients(2)) == [1, 2]


# Observers


async def named_to_clients(cluster: Cluster, node_id: int) -> tuple[Broker, ...]:
    """The nodes that a node names on its listener for clients, to an admin client."""
    async with RawClient.connected(cluster, node_id, at_clients(node_id)) as client:
        described = await client.ask(DESCRIBE_CLUSTER, DescribeClusterRequest(BROKERS))
        metadata = await client.ask(METADATA, MetadataRequest(topics=()))
    assert (metadata.topics, metadata.brokers) == ((), described.brokers)
    return described.brokers


def at_clients_of(*ids: int) -> tuple[Broker, ...]:
    return tuple(Broker(id, at_clients(id)) for id in ids)


@on_cluster(observers=2, started=())
async def test_every_node_names_observers_to_admin_clients(cluster: Cluster) -> None:
    """Kafka's tools change only what they have found among the nodes."""
    await with_client_listeners(cluster)
    for id in cluster.nodes:
        assert await named_to_clients(cluster, id) == at_clients_of(1, 2, 3, 4, 5)


@on_cluster(observers=1, started=())
async def test_observers_are_no_replicas_of_the_topic(cluster: Cluster) -> None:
    leader = await with_client_listeners(cluster)
    for id in cluster.nodes:
        async with RawClient.connected(cluster, id, at_clients(id)) as client:
            answer = await client.ask(METADATA, MetadataRequest((MetadataTopic(TOPIC),)))
        [partition] = answer.topics[0].partitions
        assert partition.leader_id == leader.key.id
        assert partition.replicas == partition.in_sync_replicas == (1, 2, 3)


@on_cluster(observers=1, started=())
async def test_a_broker_is_not_named(cluster: Cluster) -> None:
    """It tells no listeners, because it cannot become a voter."""
    cluster._configs[4] = attrs.evolve(cluster.config_of(4), process_roles=("broker",))
    leader = await with_client_listeners(cluster)
    assert await named_to_clients(cluster, leader.key.id) == at_clients_of(1, 2, 3)


@on_cluster(observers=1, started=())
async def test_a_voter_is_where_the_voters_record_says(cluster: Cluster) -> None:
    """Another process with its id, at another place, is not taken for the voter."""
    leader = await with_client_listeners(cluster)
    voter = cluster.others(leader)[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_stray, cluster, voter, 60)
        await cluster.wait_until(lambda: len(observers_of(leader)) == 2)
        assert await named_to_clients(cluster, leader.key.id) == at_clients_of(1, 2, 3, 4)
        described = await ask(cluster, leader, DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
        assert [node.id for node in described.nodes] == [1, 2, 3, 4]
        nursery.cancel_scope.cancel()


def test_an_observer_is_where_its_last_incarnation_fetched() -> None:
    progress = ProgressTable(ReplicaKey(1), epoch_started_s=0)
    places = [Endpoints({LISTENER: Endpoint(host, PORT)}) for host in ("old", "new")]
    for now_s, listeners in enumerate(places):
        key = ReplicaKey(4, UUID(int=9 - now_s))
        progress.fetched(key, 0, leader_end_offset=0, now_s=now_s, listeners=listeners)
    described = progress.describe(
        DescribeQuorumRequest(TOPIC),
        epoch=1,
        voters=VoterSet(),
        high_watermark=0,
        leader_end_offset=0,
        now_s=1,
        now_ms=1000,
        present_since_s=0,
    )
    assert described.nodes == (QuorumNode(4, places[1]),)


@on_cluster(observers=1, started=())
async def test_who_asks_for_the_topic_does_not_wait_for_the_leader(cluster: Cluster) -> None:
    """Who asks for the nodes gets the voters if the leader does not answer."""
    leader = await with_client_listeners(cluster)
    follower = cluster.others(leader)[0].key.id
    async with RawClient.connected(cluster, follower, at_clients(follower)) as client:
        with held(cluster, leader, follower):
            began_s = trio.current_time()
            of_topic = await client.ask(METADATA, MetadataRequest((MetadataTopic(TOPIC),)))
            assert trio.current_time() < began_s + 0.1
            of_nodes = await client.ask(METADATA, MetadataRequest(topics=()))
    assert of_topic.brokers == of_nodes.brokers == at_clients_of(1, 2, 3)


@on_cluster(settings={"kraft.topic.name": "orders"})
async def test_kafkas_tools_are_told_of_a_quorum_whose_topic_has_another_name(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    described = await ask(cluster, leader, DESCRIBE_QUORUM, DescribeQuorumRequest(CLUSTER_METADATA))
    assert (described.error, described.topic, described.leader_id) == (ErrorCode.none, CLUSTER_METADATA, leader.key.id)
    refused = await ask(cluster, leader, DESCRIBE_QUORUM, DescribeQuorumRequest("another"))
    assert refused.partition_error is ErrorCode.unknown_topic_or_partition
