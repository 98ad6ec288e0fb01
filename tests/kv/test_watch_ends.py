"""A client that leaves many watches ends some of them in each turn of the event loop."""

from __future__ import annotations

import itertools
import json

import trio
import trio.testing

from kraft_trio.http.exchange import Disconnected
from kraft_trio.kv.gateway.watch_stream import _ENDS_PER_TURN
from kraft_trio.simulation import Cluster
from tests.kv.gateways import FakeExchange, b64, gateways, kv_setup
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

        async with trio.open_nursery() as nursery:
            async with serving.clients[1].stream("/v3/watch", *requests()):
                await cluster.wait_until(lambda: len(changes) == WATCHES)
                nursery.start_soon(look)
        assert left[0] == WATCHES
        assert max(one - other for one, other in itertools.pairwise(left)) <= _ENDS_PER_TURN


@on_cluster(**kv_setup(voters=1))
async def test_they_end_in_turns_also_if_an_event_cannot_be_sent(cluster: Cluster) -> None:
    """The client is still connected: it does not read."""
    async with gateways(cluster) as serving:
        changes = serving.services[1].changes
        left: list[int] = []

        def take(content: bytes) -> None:
            if b"events" in content:
                left.append(len(changes))
                raise Disconnected

        exchange = FakeExchange("POST", "/v3/watch", {}, [json.dumps(one).encode() for one in requests()], take)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.clients[1].app, exchange)
            await cluster.wait_until(lambda: len(changes) == WATCHES)
            await serving.clients[1].post("/v3/kv/put", {"key": b64("7")})
            while not left or left[-1]:
                left.append(len(changes))
                await trio.lowlevel.checkpoint()
        assert left[0] >= WATCHES - 1
        assert max(one - other for one, other in itertools.pairwise(left)) <= _ENDS_PER_TURN


def requests() -> list[dict[str, dict[str, str]]]:
    return [{"create_request": {"key": b64(f"{number}")}} for number in range(WATCHES)]
