"""The network client: what its callers hear when no answer can come."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.errors import NetworkError
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC


def client_of(cluster: Cluster) -> NetworkClient:
    return NetworkClient(cluster.network.seen_from(CLIENT), "test", random.Random(0), 2**20)


@on_cluster(voters=1)
async def test_a_request_to_a_client_that_stops_is_a_network_error(cluster: Cluster) -> None:
    """Also the first one to a peer, for which a task would have to be started."""
    client = client_of(cluster)
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(NetworkError):
                await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)


@on_cluster(voters=1)
async def test_so_is_one_to_a_peer_that_was_asked_before(cluster: Cluster) -> None:
    """Its task has ended; who asks it, or for its connection, may not have heard yet that all are to end."""
    client, endpoint, request = client_of(cluster), cluster.endpoint_of(1), DescribeQuorumRequest(TOPIC)
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(NetworkError, match="has stopped"):
                await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
            with pytest.raises(NetworkError, match="has stopped"):
                async with client.lease(endpoint, 1000):
                    pass


@on_cluster(voters=1)
async def test_a_peer_from_which_nothing_comes_costs_the_timeout(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        client = client_of(cluster)
        await nursery.start(client.run)
        for _ in range(2):
            await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)
            cluster.network.isolate(CLIENT)
            begun = trio.current_time()
            with pytest.raises(NetworkError):
                await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)
            assert trio.current_time() - begun == pytest.approx(1.0)
            cluster.heal()
        nursery.cancel_scope.cancel()


@on_cluster(voters=1)
async def test_a_restarted_peer_is_asked_over_a_new_connection(cluster: Cluster) -> None:
    """The connection at hand was closed with the old process: the caller must not be the one to find out."""
    async with trio.open_nursery() as nursery:
        await cluster.wait_for_leader()
        client = client_of(cluster)
        await nursery.start(client.run)
        request = DescribeQuorumRequest(TOPIC)
        before = await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        cluster.machines[1].kill()
        await cluster.machines[1].start()
        await cluster.wait_for_leader()
        after = await client.request(cluster.endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        assert after.leader_epoch > before.leader_epoch
        nursery.cancel_scope.cancel()


@on_cluster(voters=1)
async def test_a_connection_that_has_shown_something_else_is_not_used_again(cluster: Cluster) -> None:
    """A peer that has refused the old certificate would do so until the connection ends."""
    endpoint, request, shown = cluster.endpoint_of(1), DescribeQuorumRequest(TOPIC), ["old"]
    connections: list[str] = []
    client = NetworkClient(
        cluster.network.seen_from(CLIENT),
        "test",
        random.Random(0),
        2**20,
        on_negotiated=lambda _endpoint, _versions: connections.append(shown[0]),
        shown=lambda: shown[0],
    )
    async with trio.open_nursery() as nursery:
        await cluster.wait_for_leader()
        await nursery.start(client.run)
        for shown[0] in ("old", "old", "new", "new"):
            await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
        shown[0] = "newest"
        async with client.lease(endpoint, 1000):
            pass
        assert connections == ["old", "new", "newest"]
        nursery.cancel_scope.cancel()


@on_cluster(voters=1)
async def test_a_departed_peer_has_a_connection_only_while_asked(cluster: Cluster) -> None:
    endpoint, request = cluster.endpoint_of(1), DescribeQuorumRequest(TOPIC)
    async with trio.open_nursery() as nursery:
        await cluster.wait_for_leader()
        client = client_of(cluster)
        await nursery.start(client.run)
        before = cluster.network.connection_count

        async def held_open() -> int:
            await trio.sleep(1)
            return cluster.network.connection_count - before

        await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
        assert await held_open() == 1
        client.forget(endpoint)
        assert await held_open() == 0
        await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
        assert await held_open() == 0
        async with client.lease(endpoint, 1000):
            assert await held_open() == 1
        assert await held_open() == 0
        client.expect(endpoint)
        await client.request(endpoint, DESCRIBE_QUORUM, request, 1000)
        assert await held_open() == 1
        nursery.cancel_scope.cancel()
