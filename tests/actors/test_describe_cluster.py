"""DescribeCluster: how a client that was given controllers finds the one that leads."""

from __future__ import annotations

import pytest

from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.wire.api import DESCRIBE_CLUSTER
from kraft_trio.wire.apis.describe_cluster import BROKERS, CONTROLLERS, DescribeClusterRequest
from kraft_trio.wire.apis.metadata import Broker
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import ask, remove_voter


@pytest.mark.parametrize("endpoint_type", [BROKERS, CONTROLLERS])
@on_cluster(observers=1)
async def test_every_voter_names_all_of_them_and_the_leader(cluster: Cluster, endpoint_type: int) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        answer = await ask(cluster, node, DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type))
        assert (answer.error, answer.endpoint_type) == (ErrorCode.none, endpoint_type)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, leader.key.id)
        assert answer.brokers == tuple(Broker(id, cluster.endpoint_of(id)) for id in (1, 2, 3))


@on_cluster()
async def test_who_was_removed_is_not_named(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    gone, other = (node.key for node in cluster.others(leader))
    assert (await remove_voter(cluster, leader, gone)).error == ErrorCode.none
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
