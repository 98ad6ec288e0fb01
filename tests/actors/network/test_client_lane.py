"""However many clients send however much, one turn of the event loop serves only so much of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.actors.network.client_lane import (
    HANDSHAKE_UNITS,
    MAX_OTHER_UNITS,
    OTHER_UNITS,
    OTHER_UNITS_PER_TURN,
    PRODUCE_UNITS_PER_TURN,
    ClientLanes,
    other_units,
    produce_units,
)
from kraft_trio.actors.peers.answers import Answer
from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import ImmediateStream
from tests.actors.network.test_server_connection import Router, request_at, serving

PEER = "192.0.2.1"


def served_by_turn(clients: int, requests: int, units: int) -> dict[int, int]:
    """How many requests were served in each turn, of so many clients that send so many each without a pause."""
    by_turn: dict[int, int] = {}

    async def main() -> None:
        lanes = ClientLanes()
        lane = lanes.others
        turns = LoopTurns.of_this_run()

        async def client() -> None:
            for _ in range(requests):
                if not lane.enter_now(units):
                    await lane.enter(units, PEER)
                by_turn[turns.number] = by_turn.get(turns.number, 0) + 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lanes.run)
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
    assert max(by_turn.values()) <= OTHER_UNITS_PER_TURN // units
    # And it is not idle while somebody waits.
    assert len(by_turn) <= 4000 // (OTHER_UNITS_PER_TURN // units) * 1.1 + 3


def test_costly_request_uses_up_the_turns_it_costs() -> None:
    turns = sorted(served_by_turn(4, 10, 10 * OTHER_UNITS_PER_TURN).items())
    assert {count for _, count in turns} == {1}
    assert {after - before for (before, _), (after, _) in pairwise(turns)} == {10}


def test_answer_to_an_earlier_request_uses_up_the_turn_in_which_it_is_sent() -> None:
    async def main() -> None:
        lane = ClientLanes().others
        assert lane.enter_now(1)
        await trio.lowlevel.checkpoint()
        lane.charge(OTHER_UNITS_PER_TURN)
        assert not lane.enter_now(1)
        await trio.lowlevel.checkpoint()
        assert lane.enter_now(1)

    run_deterministically(main, seed=1)


def test_produce_does_not_wait_for_what_else_is_asked() -> None:
    async def main() -> None:
        lanes = ClientLanes()
        async with trio.open_nursery() as nursery:
            assert lanes.others.enter_now(1000 * OTHER_UNITS_PER_TURN)
            for _ in range(10):
                nursery.start_soon(lanes.others.enter, OTHER_UNITS_PER_TURN, PEER)
            assert lanes.produce.enter_now(PRODUCE_UNITS_PER_TURN)
            nursery.start_soon(lanes.run)
            turns = LoopTurns.of_this_run()
            before = turns.number
            await lanes.produce.enter(1, PEER)
            assert turns.number <= before + 3
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)


def test_flood_from_one_address_keeps_others_waiting_for_a_turn_each() -> None:
    served: list[str] = []

    async def main() -> None:
        lane = (lanes := ClientLanes()).handshakes

        async def client(peer: str) -> None:
            await lane.enter(HANDSHAKE_UNITS, peer)
            served.append(peer)

        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as clients:
                for peer in ["flood"] * 500 + ["first", "second", "first"]:
                    clients.start_soon(client, peer)
                    await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(lanes.run)
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)
    assert served[:5] == ["flood", "first", "second", "flood", "first"]
    assert len(served) == 503


@pytest.mark.parametrize("left", [0, 1])
def test_peer_whose_wait_is_cancelled_has_no_turn(left: int) -> None:
    served: list[str] = []

    async def main() -> None:
        lane = (lanes := ClientLanes()).others

        async def client(peer: str) -> None:
            await lane.enter(1, peer)
            served.append(peer)

        async with trio.open_nursery() as nursery, trio.open_nursery() as clients:
            with trio.CancelScope() as gone:
                async with trio.open_nursery() as leaving:
                    leaving.start_soon(client, "leaves")
                    for peer in ["leaves"] * left + ["stays"]:
                        clients.start_soon(client, peer)
                    await trio.testing.wait_all_tasks_blocked()
                    gone.cancel()
            nursery.start_soon(lanes.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)
    assert sorted(served) == ["leaves"] * left + ["stays"]


async def test_cancelled_wait_leaves_the_lane_to_others(autojump_clock: trio.testing.MockClock) -> None:
    lanes = ClientLanes()
    lane = lanes.others
    async with trio.open_nursery() as nursery:
        assert lane.enter_now(OTHER_UNITS_PER_TURN)
        with trio.move_on_after(0):
            await lane.enter(1, PEER)
        nursery.start_soon(lanes.run)
        await lane.enter(1, PEER)
        nursery.cancel_scope.cancel()


class Received(ImmediateStream):
    """Gives whatever has been put into `received`, thousands of frames at once; takes all that is sent."""

    def __init__(self) -> None:
        self.received = trio.testing.MemoryReceiveStream()
        self.sent = trio.testing.MemoryReceiveStream()

    def send_now(self, *parts: bytes | memoryview) -> int:
        data = b"".join(parts)
        self.sent.put_data(data)
        return len(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("everything is taken at once")

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("everything is taken at once")

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.received.receive_some(max_bytes)

    async def aclose(self) -> None:
        self.received.close()


class Counting(Router):
    """Notes in which turn each request was handed on: those of clients, and those of a replica."""

    def __init__(self) -> None:
        self.of_clients: Counter[int] = Counter()
        self.of_replica: list[int] = []

    async def route(self, header: Any, listener_name: str, request: FetchSnapshotRequest, *, asker: Any) -> Answer:
        turn = LoopTurns.of_this_run().number
        if asker.is_of_replica:
            self.of_replica.append(turn)
        else:
            self.of_clients[turn] += 1
        return await super().route(header, listener_name, request, asker=asker)


@pytest.mark.parametrize("may_be_replica", [False, True])
def test_one_turn_does_one_step_of_a_handshake(may_be_replica: bool) -> None:
    """Fifty connections have sent their first message of TLS, and each would have it signed now."""
    steps: Counter[int] = Counter()

    class Handshaking(Received):
        async def start(self, take_turn: Callable[[], Awaitable[object]] | None = None) -> None:
            assert take_turn is not None
            await take_turn()
            steps[LoopTurns.of_this_run().number] += 1

    async def main() -> None:
        lanes = ClientLanes()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lanes.run)
            for _ in range(50):
                connection = serving(Handshaking(), Router(), lanes=lanes, may_be_replica=may_be_replica)
                nursery.start_soon(connection.run)
            while steps.total() < 50:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)
    assert max(steps.values()) == 1


def test_replica_connects_beside_a_flood() -> None:
    """A hundred connections each have a request in the lane when a replica comes, and its first one is like theirs."""
    router = Counting()
    flood = b"".join(request_at(2 * number) for number in range(20))

    async def main() -> None:
        lanes = ClientLanes()
        peer = Received()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lanes.run)
            for _ in range(100):
                client = Received()
                client.received.put_data(flood)
                nursery.start_soon(serving(client, router, lanes=lanes).run)
            while not router.of_clients:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(serving(peer, router, lanes=lanes, may_be_replica=True).run)
            before = router.of_clients.total()
            peer.received.put_data(request_at(0))
            await FrameReader(peer.sent, 2**20).read()
            assert router.of_clients.total() - before < 20
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)


def test_replica_is_served_between_a_few_requests_of_a_flood() -> None:
    """Four connections have received two thousand requests each; a replica asks, takes the answer, and asks again."""
    router = Counting()
    flood = b"".join(request_at(2 * number) for number in range(2000))

    async def main() -> None:
        lanes = ClientLanes()
        peer = Received()

        async def ask_as_replica() -> None:
            answers = FrameReader(peer.sent, 2**20)
            while True:
                peer.received.put_data(request_at(0))
                await answers.read()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lanes.run)
            nursery.start_soon(serving(peer, router, lanes=lanes, may_be_replica=True).run)
            nursery.start_soon(ask_as_replica)
            for _ in range(4):
                client = Received()
                client.received.put_data(flood)
                nursery.start_soon(serving(client, router, lanes=lanes).run)
            while router.of_clients.total() < 8000:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    run_deterministically(main, seed=1)
    allowed = OTHER_UNITS_PER_TURN // other_units(len(request_at(0)) - 4)
    assert max(router.of_clients.values()) <= allowed
    # Both ends of the replica's connection take their steps in turn, and nobody else is between them.
    waits = [after - before for before, after in pairwise(router.of_replica)]
    assert len(waits) > 8000 / allowed / 5
    assert max(waits) <= 5


@pytest.mark.parametrize(
    ("size", "units"),
    [(20, OTHER_UNITS), (6_400, OTHER_UNITS + 100), (31_872, MAX_OTHER_UNITS), (10_000_000, MAX_OTHER_UNITS)],
)
def test_other_requests_cost_by_their_size(size: int, units: int) -> None:
    """An element may take two bytes and is decoded by itself, so a large request takes whole turns."""
    assert other_units(size) == units


@pytest.mark.parametrize(("size", "units"), [(1_100, 1), (16_384, 2), (100_000_000, PRODUCE_UNITS_PER_TURN)])
def test_produce_costs_a_turn_at_most(size: int, units: int) -> None:
    assert produce_units(size) == units
