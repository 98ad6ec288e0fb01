"""However many clients send however much, one turn of the event loop serves only so much of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.actors.answers import Answer
from kraft_trio.actors.client_lane import OTHER_UNITS, UNITS_PER_TURN, ClientLane
from kraft_trio.actors.loop_turns import LoopTurns
from kraft_trio.actors.request_router import RequestRouter
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.codec import encode_request
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT

SMALL = encode_request(API_VERSIONS, 0, 1, "", ApiVersionsRequest())


def served_by_turn(clients: int, requests: int, units: int) -> dict[int, int]:
    """How many requests were served in each turn, of so many clients that send so many each without a pause."""
    by_turn: dict[int, int] = {}

    async def main() -> None:
        lane = ClientLane()
        turns = LoopTurns.of_this_run()

        async def client() -> None:
            for _ in range(requests):
                if not lane.enter_now(units):
                    await lane.enter(units)
                by_turn[turns.number] = by_turn.get(turns.number, 0) + 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lane.run)
            async with trio.open_nursery() as clients_nursery:
                for _ in range(clients):
                    clients_nursery.start_soon(client)
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)
    assert sum(by_turn.values()) == clients * requests
    return by_turn


@pytest.mark.parametrize("clients", [1, 4, 1000])
@pytest.mark.parametrize("units", [1, 3])
def test_turn_serves_no_more_than_its_units(clients: int, units: int) -> None:
    by_turn = served_by_turn(clients, 4000 // clients, units)
    assert max(by_turn.values()) <= UNITS_PER_TURN // units
    # And it is not idle while somebody waits.
    assert len(by_turn) <= 4000 // (UNITS_PER_TURN // units) * 1.1 + 3


def test_costly_request_is_served_in_a_turn_of_its_own() -> None:
    assert max(served_by_turn(4, 10, 10 * UNITS_PER_TURN).values()) == 1


async def test_cancelled_wait_leaves_the_lane_to_others(autojump_clock: trio.testing.MockClock) -> None:
    lane = ClientLane()
    async with trio.open_nursery() as nursery:
        assert lane.enter_now(UNITS_PER_TURN)
        with trio.move_on_after(0):
            await lane.enter(1)
        nursery.start_soon(lane.run)
        await lane.enter(1)
        nursery.cancel_scope.cancel()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many ApiVersions requests were served in which turn."""
    counted: Counter[int] = Counter()
    route = RequestRouter.route

    async def counting(self: RequestRouter, header: Any, listener_name: str, request: Any, **more: Any) -> Answer:
        if isinstance(request, ApiVersionsRequest):
            counted[LoopTurns.of_this_run().number] += 1
        return await route(self, header, listener_name, request, **more)

    monkeypatch.setattr(RequestRouter, "route", counting)
    return counted


def test_flood_is_served_in_small_turns_and_commits_go_on(served: Counter[int]) -> None:
    """Four connections with two thousand requests each, which are there already."""

    @on_cluster(voters=3)
    async def story(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"first"])
        stamp = leader.view.stamp
        network = cluster.network.seen_from(CLIENT)
        streams = [await network.connect(cluster.endpoint_of(leader.key.id)) for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(stream.send_all, SMALL * 2000)
                nursery.start_soon(read_all, stream)
            for number in range(20):
                await leader.append([b"%d" % number])
            await cluster.wait_until(lambda: served.total() >= 8000)
            nursery.cancel_scope.cancel()
        assert leader.view.stamp == stamp

    story()
    assert max(served.values()) <= UNITS_PER_TURN // OTHER_UNITS + 5  # The nodes' own connections greet each other too.


async def read_all(stream: trio.abc.ReceiveStream) -> None:
    while await stream.receive_some():
        pass
