"""What node processes have instead of network and clock: links that can be cut, and clocks that drift."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.network import ImmediateStream
from kraft_trio.wire.tcp_network import TcpNetwork
from scripts.linearizability.clock_file import DURATIONS, LEASES, ClockFile, DriftingClock, real_clock_s
from scripts.linearizability.clocks import ALMOST_STOPPED, DRIFT_PPM, Clocks
from scripts.linearizability.links import between, outward
from scripts.linearizability.proxy import PeerProxy
from scripts.linearizability.surroundings import ProxiedNetwork, Surroundings

CALLER, CALLED = 1, 2


class Pair:
    """A node that calls another one through the proxy."""

    def __init__(self, proxy: PeerProxy, network: ProxiedNetwork, endpoint: Endpoint) -> None:
        self.proxy = proxy
        self.network = network
        self.endpoint = endpoint
        self.accepted: list[ImmediateStream] = []

    async def connect(self) -> ImmediateStream:
        return await self.network.connect(self.endpoint)

    async def held(self, what: str) -> None:
        await until(lambda: self.proxy.links.effects[f"{what} held"] > 0)


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110  nothing tells what has come to the proxy
            await trio.sleep(0.001)


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    async with trio.open_nursery() as nursery:
        listener = await TcpNetwork().listen(Endpoint("127.0.0.1", 0))
        proxy = PeerProxy({listener.endpoint.port: CALLED})
        await nursery.start(proxy.serve)
        network = ProxiedNetwork(CALLER, Endpoint("127.0.0.1", proxy.port))
        made = Pair(proxy, network, listener.endpoint)

        async def accept() -> None:
            while True:
                made.accepted.append(await listener.accept())

        nursery.start_soon(accept)
        with trio.fail_after(60):
            yield made
        nursery.cancel_scope.cancel()


async def test_cut_direction_is_silent_and_delivers_late() -> None:
    async with pair() as nodes:
        stream = await nodes.connect()
        await until(lambda: len(nodes.accepted) == 1)
        [other] = nodes.accepted
        nodes.proxy.cut(outward([CALLER], [CALLED]), "silence")
        await stream.send_all(b"question")
        await nodes.held("messages")
        await other.send_all(b"answer")
        assert await stream.receive_some() == b"answer"
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await other.receive_some())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await other.send_all(b"more")
            assert await stream.receive_some() == b"more"
            assert received == []
            nodes.proxy.heal(delivers=True)
        assert received == [b"question"]


async def test_end_of_a_connection_is_not_heard_of_while_the_link_is_cut() -> None:
    async with pair() as nodes:
        stream = await nodes.connect()
        await until(lambda: len(nodes.accepted) == 1)
        nodes.proxy.cut(between([CALLER], [CALLED]), "silence")
        heard_of_it = trio.Event()

        async def listen() -> None:
            with suppress(trio.BrokenResourceError):
                assert await nodes.accepted[0].receive_some() == b""
            heard_of_it.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await stream.aclose()
            await nodes.held("ends")
            assert not heard_of_it.is_set()
            nodes.proxy.heal(delivers=True)
        assert heard_of_it.is_set()


@pytest.mark.parametrize("cut", [outward([CALLER], [CALLED]), outward([CALLED], [CALLER])], ids=["there", "back"])
async def test_connecting_needs_both_directions(cut: set[tuple[int, int]]) -> None:
    async with pair() as nodes:
        nodes.proxy.cut(cut, "silence")
        streams: list[ImmediateStream] = []

        async def connect() -> None:
            streams.append(await nodes.connect())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            await nodes.held("connections")
            assert streams == nodes.accepted == []
            nodes.proxy.heal(delivers=True)
        assert len(streams) == 1


async def test_network_that_gives_up_resets_what_it_held() -> None:
    async with pair() as nodes:
        stream = await nodes.connect()
        nodes.proxy.cut(between([CALLER], [CALLED]), "silence")
        await stream.send_all(b"question")
        await nodes.held("messages")
        nodes.proxy.heal(delivers=False)
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()


async def test_resets_end_open_connections_and_refuse_others() -> None:
    async with pair() as nodes:
        stream = await nodes.connect()
        nodes.proxy.cut(between([CALLER], [CALLED]), "reset")
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(NetworkError, match="Connection refused"):
            await nodes.connect()
        assert nodes.proxy.links.effects == {"connections reset": 1, "connections refused": 1}
        nodes.proxy.heal(delivers=True)
        await nodes.connect()


async def test_other_links_work_while_one_is_cut() -> None:
    async with pair() as nodes:
        nodes.proxy.cut(between([CALLED], [3, 4]), "silence")
        stream = await nodes.connect()
        await stream.send_all(b"question")
        await until(lambda: len(nodes.accepted) == 1)
        assert await nodes.accepted[0].receive_some() == b"question"
        assert not nodes.proxy.links.effects


async def test_nobody_listening_is_a_refusal() -> None:
    async with pair() as nodes:
        spare = await TcpNetwork().listen(Endpoint("127.0.0.1", 0))
        endpoint = spare.endpoint
        await spare.aclose()
        nodes.proxy.node_by_port = {endpoint.port: CALLED}
        with pytest.raises(NetworkError, match="Connection refused"):
            await nodes.network.connect(endpoint)


def test_clock_goes_on_from_what_it_shows(tmp_path: Path) -> None:
    file = ClockFile.create(tmp_path / "clock")
    before = file.piece
    file.set(0.5)
    slow = file.piece
    assert slow.shown_s == before.shows_at(slow.real_s)
    assert slow.shows_at(slow.real_s + 10) == slow.shown_s + 5
    for _ in range(2000):
        file.set(2.0)
    assert file.piece.pace == 2.0
    assert file.count == 2002


def test_tasks_sleep_by_the_clock_of_the_file(tmp_path: Path) -> None:
    """A day and a night pass in no time, and the pace changes under the sleeping task."""
    file = ClockFile.create(tmp_path / "clock")
    clock = DriftingClock(ClockFile(tmp_path / "clock"))
    file.set(0.0001)

    async def sleep() -> float:
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            nursery.start_soon(trio.sleep, 86_400)
            file.set(10_000_000.0)
        return trio.current_time() - began

    assert trio.run(sleep, clock=clock) >= 86_400
    assert file.is_used(DURATIONS)
    assert not file.is_used(LEASES)
    assert clock.lease_clock_s() > real_clock_s()
    assert file.is_used(LEASES)


def test_wall_clock_jumps_alone(tmp_path: Path) -> None:
    file = ClockFile.create(tmp_path / "clock")
    clock = DriftingClock(file)
    file.set(1.0, -3600.0)
    before_ms = time.time_ns() // 1_000_000
    shown_ms = clock.wall_clock_ms() + 3_600_000
    assert before_ms - 1 <= shown_ms <= time.time_ns() // 1_000_000 + 1
    shown_s = file.piece.shown_s
    assert shown_s == pytest.approx(file.piece.real_s)


@pytest.mark.parametrize("is_excessive", [False, True])
def test_only_excessive_clocks_leave_the_bound(tmp_path: Path, *, is_excessive: bool) -> None:
    clocks = Clocks.create(tmp_path, (1, 2, 3), is_excessive=is_excessive)
    source, bound = random.Random(1), DRIFT_PPM / 1e6
    for _ in range(50):
        clocks.change(source)
        assert all(abs(clock.piece.pace - 1) <= bound + 1e-9 for clock in clocks.by_id.values())
    clocks.slow_down(2)
    paces = {node_id: clock.piece.pace for node_id, clock in clocks.by_id.items()}
    assert paces == {1: 1 + bound, 2: ALMOST_STOPPED if is_excessive else 1 - bound, 3: 1 + bound}
    assert not clocks.are_used((1, 2, 3))


def test_surroundings_survive_json(tmp_path: Path) -> None:
    ClockFile.create(tmp_path / "clock").set(2.0)
    surroundings = Surroundings(1, 20_000, str(tmp_path / "clock"))
    assert Surroundings.from_json(surroundings.to_json()) == surroundings
    clock = surroundings.clock()
    environment = surroundings.environment(clock)
    assert environment.clock_s() > real_clock_s()
    assert ClockFile(tmp_path / "clock").is_used(LEASES)
    environment.disk.close()
