"""The network client: what its callers hear when no answer can come."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.errors import NetworkError
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from tests.support.cluster import Cluster, endpoint_of
from tests.support.raw_client import CLIENT, TOPIC

Clock = trio.testing.MockClock


def client_of(cluster: Cluster) -> NetworkClient:
    return NetworkClient(cluster.network.seen_from(CLIENT), "test", random.Random(0), 2**20)


async def test_a_request_to_a_client_that_stops_is_a_network_error(autojump_clock: Clock) -> None:
    """Also the first one to a peer, for which a task would have to be started."""
    client = client_of(Cluster())
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(NetworkError):
                await client.request(endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)


async def test_a_peer_from_which_nothing_comes_costs_the_timeout(autojump_clock: Clock) -> None:
    async with Cluster(voter_ids=(1,)).running() as cluster, trio.open_nursery() as nursery:
        client = client_of(cluster)
        await nursery.start(client.run)
        for _ in range(2):
            await client.request(endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)
            cluster.network.cut(lambda source, target: CLIENT in (source, target), silent=True)
            begun = trio.current_time()
            with pytest.raises(NetworkError):
                await client.request(endpoint_of(1), DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC), 1000)
            assert trio.current_time() - begun == pytest.approx(1.0)
            cluster.heal()
        nursery.cancel_scope.cancel()


async def test_a_peer_that_has_restarted_is_asked_over_a_new_connection(autojump_clock: Clock) -> None:
    """The connection at hand was closed with the old process: the caller must not be the one to find out."""
    async with Cluster(voter_ids=(1,)).running() as cluster, trio.open_nursery() as nursery:
        await cluster.wait_for_leader()
        client = client_of(cluster)
        await nursery.start(client.run)
        request = DescribeQuorumRequest(TOPIC)
        before = await client.request(endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        await cluster.crash(1)
        await cluster.restart(1)
        await cluster.wait_for_leader()
        after = await client.request(endpoint_of(1), DESCRIBE_QUORUM, request, 1000)
        assert after.leader_epoch > before.leader_epoch
        nursery.cancel_scope.cancel()
