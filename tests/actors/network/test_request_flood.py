"""Floods of requests and of connections cost a quorum neither an election nor a commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from kraft_trio.errors import KraftError
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC, RawClient
from tests.support.timing import set_timing

FLOODERS = 16
"""On each node."""
REQUESTS = 30
CONNECTIONS = 40
COMMITS = 20
QUESTIONS = 50
"""Of one client, before it takes an answer."""
LARGE = encode_batch([NewRecord(bytes(20_000))], timestamp_ms=0)
HALF_A_REQUEST = b"\0\0\0\x20\0\x12\0\x03\0\0\0\1"


async def requests(cluster: Cluster, node_id: int, number: int) -> None:
    """One after the other without a pause, of those that cost most, each flooder another kind."""
    async with RawClient.connected(cluster, node_id) as client:
        for _ in range(REQUESTS):
            match number % 4:
                case 0:
                    await client.produce(LARGE)
                case 1:
                    await client.fetch(0)
                case 2:
                    await client.init_producer_id()
                case _:
                    await client.describe()


async def connections(cluster: Cluster, node_id: int, number: int) -> None:
    """One after the other: some send half a request, some nothing, and some stay for a while."""
    network = cluster.network.seen_from(CLIENT)
    for count in range(CONNECTIONS):
        stream = await network.connect(cluster.endpoint_of(node_id))
        with suppress(trio.BrokenResourceError):
            if count % 2:
                await stream.send_all(HALF_A_REQUEST)
            await trio.sleep(0.05 * (number % 3))
        await stream.aclose()


Flood = Callable[[Cluster, int, int], Awaitable[None]]


async def outlasted(cluster: Cluster, flood: Flood) -> None:
    """Commit next to the flood, on every node, and compare the epochs before and after."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    await cluster.wait_until_alike(*cluster.voter_ids)
    before = [cluster.nodes[id].view.epoch for id in cluster.voter_ids]
    served: list[int] = []

    async def one(node_id: int, number: int) -> None:
        with suppress(KraftError):  # A node may refuse what is too much.
            await flood(cluster, node_id, number)
            served.append(node_id)

    async with trio.open_nursery() as nursery:
        for node_id in cluster.voter_ids:
            for number in range(FLOODERS):
                nursery.start_soon(partial(one, node_id, number))
        for number in range(COMMITS):
            assert await leader.append([b"%d" % number])
    assert set(served) == set(cluster.voter_ids)
    await cluster.wait_until_alike(*cluster.voter_ids)
    assert [cluster.nodes[id].view.epoch for id in cluster.voter_ids] == before
    assert leader.view.leader_id == leader.key.id


@on_cluster(voters=3)
async def test_a_flood_of_requests(cluster: Cluster) -> None:
    await outlasted(cluster, requests)


@on_cluster(voters=3, settings={"max.connections": "40"})
async def test_a_flood_of_connections(cluster: Cluster) -> None:
    await outlasted(cluster, connections)


@on_cluster(voters=3)
async def test_questions_that_a_follower_passes_on_do_not_hold_up_its_own_appends(cluster: Cluster) -> None:
    """Any client may ask a follower what only the leader knows, and each such question takes a round trip."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike(*cluster.voter_ids)
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    set_timing(cluster, latency_s=0.001)
    await follower.append([b"before"])
    asked, answered = trio.Event(), 0

    async def ask_much() -> None:
        nonlocal answered
        async with RawClient.connected(cluster, follower.key.id) as client:
            for _ in range(QUESTIONS):
                await client.connection.begin(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
            for _ in range(QUESTIONS):
                await client.connection.finish(DESCRIBE_QUORUM)
                answered += 1
                asked.set()

    async with trio.open_nursery() as nursery:
        for _ in range(FLOODERS):
            nursery.start_soon(ask_much)
        await asked.wait()
        before = answered
        await follower.append([b"beside"])
        assert answered - before < QUESTIONS
        nursery.cancel_scope.cancel()
