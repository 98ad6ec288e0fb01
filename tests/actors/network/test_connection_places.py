"""Connections that do nothing, or too slowly, keep nobody out; all in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.codec import encode_request
from tests.actors.network.test_listener_admission import at_clients, with_client_listeners
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, RawClient

HELLO = encode_request(API_VERSIONS, 3, 1, "test", ApiVersionsRequest())
PLACES = {"max.connections": "8"}


async def closes_after_s(cluster: Cluster, sent: bytes) -> float:
    """How long the node keeps a connection on which only that was sent."""
    stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(1))
    began_s = trio.current_time()
    async with stream:
        if sent:
            await stream.send_all(sent)
        with trio.fail_after(60):
            while await stream.receive_some():
                pass
    return trio.current_time() - began_s


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [(b"", 5), (HELLO[:3], 5), (HELLO[:-1], 5), (HELLO, 20), (HELLO + HELLO[:7], 5)],
    ids=["nothing", "part of a length", "part of a request", "a request", "a request and a part"],
)
def test_connection_that_does_nothing_is_closed(sent: bytes, seconds: float) -> None:
    @on_cluster(voters=1, settings={"connections.max.idle.ms": "20000"})
    async def story(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        assert seconds <= await closes_after_s(cluster, sent) <= seconds + 3

    story()


async def returns(cluster: Cluster, leader: Node, voter: int) -> None:
    """Start a voter again, and wait until it follows the same leader."""
    stamp = leader.view.stamp
    await cluster.machines[voter].start()
    await leader.append([b"value"])
    with trio.fail_after(30):
        await cluster.wait_until_alike()
    assert leader.view.stamp == stamp


@on_cluster(voters=3, settings=PLACES)
async def test_voter_gets_in_when_idle_clients_hold_all_places(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    voter = next(id for id in cluster.voter_ids if id != leader.key.id)
    cluster.machines[voter].kill()
    async with AsyncExitStack() as stack:
        for _ in range(20):
            # A client that is refused tries again.
            stream = await cluster.network.seen_from(CLIENT).connect(cluster.endpoint_of(leader.key.id))
            stack.push_async_callback(stream.aclose)
            await stream.send_all(HELLO)
            await trio.sleep(0.2)
        await returns(cluster, leader, voter)


@on_cluster(voters=1, settings=PLACES)
async def test_newcomer_takes_the_place_of_the_longest_idle(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(RawClient.connected(cluster, 1)) for _ in range(8)]
        await trio.sleep(2)
        for client in clients[1:]:
            await client.describe()
        async with RawClient.connected(cluster, 1) as newcomer:
            assert (await newcomer.describe()).leader_id == 1
            with pytest.raises(NetworkError):
                await clients[0].describe()
            for client in clients[1:]:
                assert (await client.describe()).leader_id == 1


@on_cluster(voters=3, settings=PLACES)
async def test_voter_gets_in_when_one_address_is_busy_on_all_places(cluster: Cluster) -> None:
    """Each of its connections asks for something all the time, so that none is idle."""
    leader = await cluster.wait_for_leader()
    voter = next(id for id in cluster.voter_ids if id != leader.key.id)
    cluster.machines[voter].kill()

    async def stay_busy() -> None:
        while True:
            with suppress(NetworkError, trio.BrokenResourceError):
                async with RawClient.connected(cluster, leader.key.id) as client:
                    while True:
                        await client.describe()
                        await trio.sleep(0.3)
            await trio.sleep(0.3)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(stay_busy)
        await trio.sleep(5)
        await returns(cluster, leader, voter)
        nursery.cancel_scope.cancel()


@on_cluster(voters=1, settings={"max.connections.per.ip": "2"})
async def test_address_has_as_many_connections_as_it_may(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1), RawClient.connected(cluster, 1):
        with pytest.raises(NetworkError):
            async with RawClient.connected(cluster, 1):
                pass


async def is_served(stack: AsyncExitStack, cluster: Cluster, endpoint: Endpoint | None) -> bool:
    """Whether a newcomer is; its connection stays open until the stack is left."""
    try:
        client = await stack.enter_async_context(RawClient.connected(cluster, 1, endpoint))
        await client.describe()
    except NetworkError:
        return False
    return True


@on_cluster(voters=1, started=(), settings={"max.connections.per.ip": "2"})
async def test_address_limit_is_none_for_controller_listeners(cluster: Cluster) -> None:
    """Replicas may share an address; clients of the other listener may not take more than they are given."""
    await with_client_listeners(cluster)
    async with AsyncExitStack() as stack:
        assert [await is_served(stack, cluster, at_clients(1)) for _ in range(4)] == [True, True, False, False]
        assert [await is_served(stack, cluster, None) for _ in range(4)] == [True] * 4


@on_cluster(voters=1, started=(), settings=PLACES)
async def test_clients_leave_places_to_the_controller_listener(cluster: Cluster) -> None:
    """Of eight places two are kept; nobody is idle for long enough to make room for another."""
    await with_client_listeners(cluster)
    async with AsyncExitStack() as stack:
        assert [await is_served(stack, cluster, at_clients(1)) for _ in range(8)] == [True] * 6 + [False] * 2
        assert [await is_served(stack, cluster, None) for _ in range(3)] == [True, True, False]
