"""The two ways to the log do alike what both can do, and say up to where they have read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.simulation.clients.log_access import EmbeddedAccess, LogAccess, NetworkAccess, Values
from kraft_trio.simulation.cluster import Cluster, simulate

pytestmark = pytest.mark.rotating(2)

Opening = Callable[[Cluster], AbstractAsyncContextManager[LogAccess]]


@asynccontextmanager
async def over_the_network(cluster: Cluster) -> AsyncIterator[LogAccess]:
    async with cluster.client("c") as client:
        yield NetworkAccess(cluster, "c", client)


@asynccontextmanager
async def in_the_leader(cluster: Cluster) -> AsyncIterator[LogAccess]:
    yield EmbeddedAccess(await cluster.wait_for_leader())


@asynccontextmanager
async def in_a_follower(cluster: Cluster) -> AsyncIterator[LogAccess]:
    leader = await cluster.wait_for_leader()
    yield EmbeddedAccess(next(node for node in cluster.nodes.values() if node is not leader))


EVERY_WAY = pytest.mark.parametrize("way", [over_the_network, in_the_leader, in_a_follower])


@EVERY_WAY
def test_what_was_appended_is_read_to_the_end_asked_for(way: Opening) -> None:
    async def main(cluster: Cluster) -> None:
        async with way(cluster) as access:
            first = await access.append([b"a", b"b"], 5.0)
            second = await access.append([b"c"], 5.0)
            offsets = (*first, *second)
            end = offsets[-1] + 1
            assert offsets == tuple(range(offsets[0], end))
            assert await access.read(0, end, 5.0) == Values(offsets, (b"a", b"b", b"c"), end)
            assert await access.read(offsets[1], end, 5.0) == Values(offsets[1:], (b"b", b"c"), end)
            assert await access.read(0, end - 1, 5.0) == Values(offsets[:2], (b"a", b"b"), end - 1)
            assert await access.read_committed(offsets[2], 5.0) == Values(offsets[2:], (b"c",), end)

    simulate(main)


@EVERY_WAY
def test_without_a_value_there_is_nothing_to_read_or_await(way: Opening) -> None:
    async def main(cluster: Cluster) -> None:
        async with way(cluster) as access:
            (offset,) = await access.append([b"a"], 5.0)
            began_at_s = cluster.now_s
            assert await access.read(offset + 1, offset + 1, 5.0) == Values((), (), offset + 1)
            assert await access.read(offset + 1, offset, 5.0) == Values((), (), offset)
            assert cluster.now_s == began_at_s
            assert await access.read(0, offset, 5.0) == Values((), (), offset), "only the protocol's own before it"

    simulate(main)


@EVERY_WAY
def test_a_read_of_what_is_not_there_yet_waits_as_long_as_it_may(way: Opening) -> None:
    async def main(cluster: Cluster) -> None:
        async with way(cluster) as access:
            (offset,) = await access.append([b"a"], 5.0)
            began_at_s = cluster.now_s
            with pytest.raises(trio.TooSlowError):
                await access.read(offset, offset + 2, 3.0)
            assert cluster.now_s - began_at_s == pytest.approx(3.0)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(access.append, [b"b"], 5.0)
                assert (await access.read(offset, offset + 2, 30.0)).values == (b"a", b"b")

    simulate(main)


def test_an_abandoned_network_read_keeps_no_connection() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        async with cluster.client("c") as client:
            with pytest.raises(trio.TooSlowError):
                await NetworkAccess(cluster, "c", client).read(0, 1000, 3.0)
            assert client._readers, "the reader is still known"
            assert all(reader.ended for reader in client._readers)

    simulate(main)


def test_a_leader_without_a_known_commit_serves_no_reads() -> None:
    async def main(cluster: Cluster) -> None:
        async with over_the_network(cluster) as access:
            (offset,) = await access.append([b"a"], 5.0)
            with pytest.raises(NetworkError, match=f"leads, and knows of no commit at offset {offset + 2} yet"):
                await access.read_committed(offset + 2, 5.0)

    simulate(main)


def test_without_a_leader_there_is_no_committed_end() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        for node_id in (1, 2):
            cluster.machines[node_id].kill()
        await cluster.wait_until(lambda: cluster.leader() is None)
        async with over_the_network(cluster) as access:
            with pytest.raises((NetworkError, trio.TooSlowError)):
                await access.read_committed(0, 2.0)

    simulate(main)


def test_a_follower_that_is_cut_off_reads_what_it_has() -> None:
    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        (offset,) = await leader.append([b"before"])
        await cluster.wait_until_alike()
        cluster.partition([follower.config.node_id], [id for id in cluster.machines if id != follower.config.node_id])
        await EmbeddedAccess(leader).append([b"after"], 5.0)
        access = EmbeddedAccess(follower)
        assert access.via == follower.config.node_id
        assert await access.read_committed(offset, 5.0) == Values((offset,), (b"before",), offset + 1)
        with pytest.raises(trio.TooSlowError):
            await access.append([b"never"], 2.0)

    simulate(main)
