"""Every kind of partition: who reaches whom, over connections there are and new ones, and what the end of it brings."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.link_faults import Blocked, Manner, on_link
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.framing import FrameReader
from tests.simulation.echo_world import ANSWERED, HEARD, LATENCY_S, NOTHING, EchoWorld, request_frame

Clock = trio.testing.MockClock


def both_ways(*pairs: str) -> set[str]:
    return set(pairs) | {" ".join(reversed(pair.split())) for pair in pairs}


GROUPS = {
    "isolate": (lambda network: network.isolate("b"), both_ways("b a", "b c", "b d", "b e")),
    "isolate from some": (lambda network: network.isolate("b", ["c", "d"]), both_ways("b c", "b d")),
    "halves": (
        lambda network: network.partition(["a", "b"], ["c", "d"]),
        both_ways("a c", "a d", "b c", "b d"),
    ),
    "three groups": (lambda network: network.partition(["a"], ["b"], ["c"]), both_ways("a b", "a c", "b c")),
    "bridge": (lambda network: network.bridge("c", ["a", "b"], ["d"]), both_ways("a d", "b d")),
    "ring": (
        lambda network: network.ring("a", "b", "c", "d", "e"),
        both_ways("a c", "a d", "b d", "b e", "c e"),
    ),
}


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "reset"])
@pytest.mark.parametrize(("make", "cut_off"), GROUPS.values(), ids=GROUPS.keys())
async def test_groups_are_cut_off_and_nobody_else(autojump_clock: Clock, make, cut_off, silent: bool) -> None:
    async with EchoWorld(("a", "b", "c", "d", "e")).running() as world:
        assert await world.unreachable() == set()
        cut = make(world.network)
        if not silent:
            world.network.heal()
            cut = world.network.cut(cut.blocked, Manner.RESET)
        assert await world.unreachable() == cut_off
        assert await world.unreachable(reconnect=True) == cut_off
        world.network.heal(cut)
        assert await world.unreachable(reconnect=True) == set()


@pytest.mark.parametrize("reconnect", [False, True], ids=["over the connection there is", "over a new one"])
async def test_one_way_the_target_still_asks_and_hears_nothing(autojump_clock: Clock, reconnect: bool) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        await world.reachability()
        world.network.one_way("a", "b")
        outcomes = await world.reachability(reconnect=reconnect)
        assert outcomes.pop("a b") == NOTHING
        assert outcomes.pop("b a") == HEARD
        assert set(outcomes.values()) == {ANSWERED}


async def test_one_way_without_handshakes_nobody_can_connect(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        await world.reachability()
        world.network.one_way("a", "b", handshakes=False)
        assert await world.reachability() == {"a b": NOTHING, "b a": HEARD}
        assert await world.reachability(reconnect=True) == {"a b": NOTHING, "b a": NOTHING}


@pytest.mark.parametrize("reconnect", [False, True], ids=["over the connection there is", "over a new one"])
async def test_requests_only(autojump_clock: Clock, reconnect: bool) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        await world.reachability()
        world.network.requests_only("a", "b")
        outcomes = await world.reachability(reconnect=reconnect)
        assert outcomes.pop("a b") == HEARD
        assert set(outcomes.values()) == {ANSWERED}
        assert await world.ask("a", "b", reconnect=True, api=API_VERSIONS) == ANSWERED, "a connection can begin"


async def test_answers_only(autojump_clock: Clock) -> None:
    """What was asked before is still answered."""
    async with EchoWorld(("a", "b", "c")).running() as world:
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        await trio.sleep(1.5 * LATENCY_S)
        world.network.answers_only("a", "b")
        reader = FrameReader(stream, 1000)
        assert await reader.read() is not None
        for reconnect in (False, True):
            outcomes = await world.reachability(reconnect=reconnect)
            assert outcomes.pop("a b") == NOTHING
            assert set(outcomes.values()) == {ANSWERED}


async def test_cuts_add_up_and_each_can_be_healed(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        first = world.network.isolate("a")
        second = world.network.partition(["a", "b"], ["c"])
        assert world.network.cuts == (first, second)
        assert await world.unreachable() == both_ways("a b", "a c", "b c")
        world.network.heal(first)
        assert await world.unreachable(reconnect=True) == both_ways("a c", "b c")
        world.network.heal(first)
        world.network.heal()
        assert world.network.cuts == ()
        assert await world.unreachable(reconnect=True) == set()


async def test_a_clogged_link_delivers_in_order_when_it_is_free(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        stream = await world.connect("a", "b")
        await world.ask("a", "c")
        world.network.clog("a", "b")
        world.network.clog("b", "c")
        for number in range(1000, 1005):
            await stream.send_all(request_frame(number))
            await trio.sleep(1)
        assert world.heard == [("c", 1)]
        world.network.unclog("a", "b")
        await trio.sleep(LATENCY_S + 0.001)
        assert world.heard[1:] == [("b", number) for number in range(1000, 1005)]
        assert len(world.network.cuts) == 1, "the other link is still clogged"


async def test_what_a_cut_has_lost_is_sent_again_by_tcp_after_its_end(autojump_clock: Clock) -> None:
    """After 0.2 s, 0.6 s, 1.4 s, 3.0 s, ... from when it was sent; all behind it comes with it, in order."""
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        begun = trio.current_time()
        world.network.partition(["a"], ["b"])
        await stream.send_all(request_frame(1000))
        await stream.send_all(request_frame(1001))
        await trio.sleep(1.5)
        world.network.heal()
        while len(world.heard) < 2:  # noqa: ASYNC110
            await trio.sleep(0.001)
        assert trio.current_time() - begun == pytest.approx(3.0 + LATENCY_S, abs=0.002)
        assert world.heard == [("b", 1000), ("b", 1001)]


async def test_what_is_on_its_way_when_the_cut_comes_is_lost_too(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        await trio.sleep(0.5 * LATENCY_S)
        world.network.isolate("a")
        await trio.sleep(10)
        assert world.heard == []


async def test_what_has_arrived_when_the_cut_comes_can_be_read(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        await trio.sleep(3 * LATENCY_S)
        world.network.isolate("a")
        assert await stream.receive_some()


async def test_connections_over_a_cut_that_resets_break_at_once(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        across, within = await world.connect("a", "b"), await world.connect("b", "c")
        world.network.partition(["a"], ["b", "c"], silent=False)
        begun = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await across.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            across.send_now(b"x")
        assert trio.current_time() == begun
        await within.send_all(request_frame(1000))
        assert await within.receive_some()
        assert await world.ask("a", "b", reconnect=True, within_s=0.1) == NOTHING


async def test_bytes_in_flight_on_a_broken_connection_are_lost(autojump_clock: Clock) -> None:
    """Also to a reader that looks only when it would have arrived."""
    network = EchoWorld(()).network
    listener = await network.seen_from("b").listen(Endpoint("b", 9093))
    near = await network.seen_from("a").connect(listener.endpoint)
    far = await listener.accept()
    network.set_default_link(latency=Latency.constant(1))
    await near.send_all(b"x")
    network.partition(["a"], ["b"], silent=False)
    await trio.sleep(2)
    with pytest.raises(trio.BrokenResourceError):
        await far.receive_some()


async def test_bytes_lost_by_a_cut_are_resent_even_if_a_clog_follows(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        cut = world.network.isolate("b")
        await stream.send_all(request_frame(1000))
        world.network.clog("a", "b")
        world.network.heal(cut)
        await trio.sleep(1.5)
        world.network.heal()
        await trio.sleep(1.4)
        assert world.heard == [], "TCP's next attempt is 3 s after the first"
        await trio.sleep(0.2)
        assert world.heard == [("b", 1000)]


async def test_a_one_way_reset_ends_connections_for_both_sides(autojump_clock: Clock) -> None:
    network = EchoWorld(()).network
    listener = await network.seen_from("b").listen(Endpoint("b", 9093))
    near = await network.seen_from("a").connect(listener.endpoint)
    far = await listener.accept()
    network.cut(on_link("a", "b", Blocked.EVERYTHING), Manner.RESET)
    for end in (near, far):
        with pytest.raises(trio.BrokenResourceError):
            end.send_now(b"x")
    await network.seen_from("a").listen(Endpoint("a", 9093))
    for source, target in (("a", "b"), ("b", "a")):
        with pytest.raises(NetworkError, match="refused"):
            await network.seen_from(source).connect(Endpoint(target, 9093))


async def test_the_next_syn_after_a_cut_opens_the_connection(autojump_clock: Clock) -> None:
    """SYNs go out after 0, 1, 3 and 7 seconds (RFC 6298)."""
    async with EchoWorld(("a", "b")).running() as world:
        begun = trio.current_time()
        world.network.isolate("b")

        async def heal() -> None:
            await trio.sleep(3.5)
            world.network.heal()

        world.nursery.start_soon(heal)
        await world.connect("a", "b")
        assert trio.current_time() - begun == pytest.approx(7 + 2 * LATENCY_S)


@pytest.mark.parametrize("asks", [False, True], ids=["idle", "with a request unanswered"])
async def test_a_connection_over_a_long_cut_is_given_up_by_both_sides(autojump_clock: Clock, asks: bool) -> None:
    """As the sockets' keep-alive settings have it: after 90 seconds."""
    async with EchoWorld(("a", "b")).running() as world:
        near = await world.connect("a", "b")
        world.network.isolate("b")
        begun = trio.current_time()
        if asks:
            await near.send_all(request_frame(1000))
        with pytest.raises(trio.BrokenResourceError, match="timed out"):
            await near.receive_some()
        assert trio.current_time() - begun == pytest.approx(90)
        await near.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert world.network.connection_count == 0, "the other side has given up as well, and closed"


async def test_an_abandoned_connection_stays_so_even_if_unobserved(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near = await world.connect("a", "b")
        world.network.isolate("b")
        await trio.sleep(100)
        world.network.heal()
        with pytest.raises(trio.BrokenResourceError, match="given up"):
            near.send_now(b"x")


async def test_a_syn_that_a_cut_meets_on_its_way_is_lost(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        begun = trio.current_time()

        async def cut() -> None:
            await trio.sleep(0.5 * LATENCY_S)
            isolation = world.network.isolate("b")
            await trio.sleep(LATENCY_S)
            world.network.heal(isolation)

        world.nursery.start_soon(cut)
        await world.connect("a", "b")
        assert trio.current_time() - begun == pytest.approx(1 + 2 * LATENCY_S)


async def test_a_connection_over_a_shorter_cut_lives_on(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        near = await world.connect("a", "b")
        world.network.isolate("b")
        await trio.sleep(80)
        world.network.heal()
        await trio.sleep(80)
        await near.send_all(request_frame(1000))
        assert await near.receive_some()


async def test_hosts_reach_themselves_whatever_is_cut(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.isolate("a")
        world.network.cut(lambda _source, _target: Blocked.EVERYTHING)
        assert await world.ask("a", "a") == ANSWERED
        stream = await world.network.seen_from("a").connect(Endpoint("localhost", 9093))
        await stream.send_all(request_frame(1000))
        assert await stream.receive_some()


def test_partitions_that_make_no_sense_are_refused() -> None:
    network = EchoWorld(()).network
    with pytest.raises(ValueError, match="b named twice"):
        network.partition(["a", "b"], ["b", "c"])
    with pytest.raises(ValueError, match="bridge a: a host in neither"):
        network.bridge("a", ["a"], ["b"])
    with pytest.raises(ValueError, match="each host once"):
        network.ring("a", "b", "a")
    assert network.cuts == ()
