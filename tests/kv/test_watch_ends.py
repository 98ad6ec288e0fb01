"""A client that leaves many watches ends some of them in each turn of the event loop."""

from __future__ import annotations

import itertools

import trio
import trio.testing

from kraft_trio.kv.gateway.watch_stream import _ENDS_PER_TURN
from kraft_trio.simulation import Cluster
from tests.kv.gateways import b64, gateways, kv_setup
from tests.support.on_cluster import on_cluster

WATCHES = 5 * _ENDS_PER_TURN


@on_cluster(**kv_setup(voters=1))
async def test_the_watches_of_a_stream_end_in_turns(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        changes = serving.services[1].changes
        left: list[int] = []

        async def look() -> None:
            while not left or left[-1]:
                left.append(len(changes))
                await trio.lowlevel.checkpoint()

        requests = [{"create_request": {"key": b64(f"{number}")}} for number in range(WATCHES)]
        async with trio.open_nursery() as nursery:
            async with serving.clients[1].stream("/v3/watch", *requests):
                await cluster.wait_until(lambda: len(changes) == WATCHES)
                nursery.start_soon(look)
        assert left[0] == WATCHES
        assert max(one - other for one, other in itertools.pairwise(left)) <= _ENDS_PER_TURN
