"""What can happen to single frames: late, lost, cut off, delivered twice; and that chance has its rate and its seed."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.wire.api import API_VERSIONS, FETCH, VOTE
from kraft_trio.wire.framing import FrameReader
from tests.simulation.echo_world import ANSWERED, HEARD, LATENCY_S, NOTHING, EchoWorld, request_frame

pytestmark = pytest.mark.rotating(2)

Clock = trio.testing.MockClock


async def arrivals(world: EchoWorld, count: int) -> list[float]:
    """Send that many requests over one connection, 1 s apart; how long each was under way."""
    stream = await world.connect("a", "b")
    took = []
    for number in range(1000, 1000 + count):
        heard, begun = len(world.heard), trio.current_time()
        await stream.send_all(request_frame(number))
        while len(world.heard) == heard:  # noqa: ASYNC110
            await trio.sleep(0.001)
        took.append(trio.current_time() - begun)
        await trio.sleep_until(begun + 10)
    return took


async def test_each_direction_has_a_latency_of_its_own(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        world.network.set_link("a", "b", latency=Latency.constant(0.3))
        for source, target in (("a", "b"), ("b", "a")):
            stream = await world.connect(source, target)
            begun = trio.current_time()
            await stream.send_all(request_frame(1000))
            await stream.receive_some()
            assert trio.current_time() - begun == pytest.approx(0.3 + LATENCY_S)
        world.network.reset_link("a", "b")
        assert await arrivals(world, 1) == pytest.approx([LATENCY_S], abs=0.002)


async def test_latencies_vary_as_their_distribution_says(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.set_default_link(latency=Latency.uniform(0.1, 0.2))
        uniform = await arrivals(world, 60)
        assert 0.1 <= min(uniform) < 0.12
        assert 0.18 < max(uniform) < 0.202
        world.network.set_default_link(latency=Latency.long_tailed(0.1, 0.2, 0.45))
        long_tailed = await arrivals(world, 100)
        assert 0.1 <= min(long_tailed) < 0.11
        assert 0.44 < max(long_tailed) < 0.452
        assert sum(took < 0.2 for took in long_tailed) > 50


async def test_frames_keep_their_order_only_within_a_connection(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.set_default_link(latency=Latency.uniform(0.0, 0.5))
        one, other = await world.connect("a", "b"), await world.connect("a", "b")
        for number in range(1000, 1050):
            await one.send_all(request_frame(number))
            await other.send_all(request_frame(number + 1000))
            await trio.sleep(0.02)
        await trio.sleep(1)
        heard = [number for _, number in world.heard]
        first = [number for number in heard if number < 2000]
        assert first == sorted(first)
        assert len(first) == 50
        by_sending = sorted(heard, key=lambda number: (number % 1000, number))
        assert heard != by_sending, "some frame sent later over the other connection arrives first"


@pytest.mark.rotating(2)
async def test_a_lost_frame_comes_late_and_all_behind_it_wait(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.set_link("a", "b", loss=0.4)
        took = await arrivals(world, 100)
        lost = [round((delay - LATENCY_S) / 0.2) for delay in took if delay > 2 * LATENCY_S]
        assert 20 < len(lost) < 60
        assert set(lost) <= {1, 3, 7, 15, 31}, "0.2 s, doubled with each further loss"
        assert {1, 3} <= set(lost)
        assert world.network.faults["loss"] >= len(lost)


async def test_lost_syns_delay_a_connection(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.set_default_link(loss=0.25)
        waits = []
        for _ in range(20):
            begun = trio.current_time()
            await world.connect("a", "b")
            waits.append(round(trio.current_time() - begun))
        assert set(waits) <= {0, 1, 3, 7, 15, 31, 63}
        assert len(set(waits)) > 2


@pytest.mark.parametrize("is_request", [True, False], ids=["request", "answer"])
async def test_a_frame_lost_with_its_connection(autojump_clock: Clock, is_request: bool) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        assert await world.ask("a", "b") == ANSWERED
        world.network.plan(frames_of(FETCH, is_request=is_request), FrameFate.RESET)
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        await trio.sleep(1)
        assert (("b", 1000) in world.heard) is not is_request
        assert await world.ask("a", "b", reconnect=True) == ANSWERED, "it was planned once"
        assert world.network.faults["reset"] == 1


async def test_nothing_comes_after_a_reset(autojump_clock: Clock) -> None:
    """Not even to a reader that looks late."""
    network = EchoWorld(()).network
    listener = await network.seen_from("b").listen(Endpoint("b", 9093))
    near = await network.seen_from("a").connect(listener.endpoint)
    far = await listener.accept()
    network.plan(frames_of(FETCH, is_request=True), FrameFate.RESET)
    await near.send_all(request_frame(1000))
    await near.send_all(request_frame(1001))
    await trio.sleep(1)
    with pytest.raises(trio.BrokenResourceError):
        await far.receive_some()


@pytest.mark.parametrize("is_request", [True, False], ids=["request", "answer"])
async def test_of_a_frame_that_is_cut_a_part_arrives_and_then_a_reset(autojump_clock: Clock, is_request: bool) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        lengths = set()
        for _ in range(20):
            world.network.plan(frames_of(FETCH, is_request=is_request), FrameFate.CUT)
            stream = await world.connect("a", "b")
            listener = world.network.listeners["b", 9093]
            await stream.send_all(request_frame(1000, body=bytes(100)))
            if is_request:
                with pytest.raises(trio.BrokenResourceError):
                    await stream.receive_some()
            else:
                lengths.add(len(await stream.receive_some()))
                with pytest.raises(trio.BrokenResourceError):
                    await stream.receive_some()
            assert listener is world.network.listeners["b", 9093]
        assert is_request is (world.heard == [])
        if not is_request:
            assert len(lengths) > 5
            assert max(lengths) < 14


async def test_the_reader_of_a_cut_frame_gets_no_frame(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.plan(frames_of(FETCH, is_request=False), FrameFate.CUT)
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        with pytest.raises((NetworkError, ProtocolError)):
            await FrameReader(stream, 1000).read()
        assert [message.delivered for message in world.sent] == [True, False]


async def test_a_duplicated_request_is_handled_twice(autojump_clock: Clock) -> None:
    """Its sender sees a reset after the first delivery; nobody reads either answer."""
    async with EchoWorld(("a", "b")).running() as world:
        world.network.plan(frames_of(FETCH, is_request=True, source="a", target="b"), FrameFate.DUPLICATE)
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        await stream.aclose()
        await trio.sleep(2)
        assert world.heard == [("b", 1000), ("b", 1000)]
        first, again = [message for message in world.delivered if message.is_request]
        assert (first.is_duplicate, again.is_duplicate) == (False, True)
        assert first.raw == again.raw
        assert first.connection != again.connection
        assert [message.is_request for message in world.sent] == [True, False, False], "it was sent once only"
        assert [world.sent[1].request, world.sent[2].request] == [first, again]
        assert world.network.connection_count == 0


async def test_a_server_that_never_answers_loses_both_connections(autojump_clock: Clock) -> None:
    """Nobody is at the other end of either: keep-alive finds out."""
    network = EchoWorld(()).network
    listener = await network.seen_from("b").listen(Endpoint("b", 9093))
    near = await network.seen_from("a").connect(listener.endpoint)
    network.plan(frames_of(FETCH, is_request=True), FrameFate.DUPLICATE)
    await near.send_all(request_frame(1000))
    for _ in range(2):
        far = await listener.accept()
        assert await far.receive_some() == request_frame(1000)
        network.heal(network.isolate("a"))
        with trio.fail_after(100), pytest.raises(trio.BrokenResourceError, match="timed out"):
            await far.receive_some()
        await far.aclose()
    await near.aclose()
    assert network.connection_count == 0


async def test_a_duplicate_dies_with_the_process_it_was_for(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.plan(frames_of(FETCH, is_request=True), FrameFate.DUPLICATE)
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        await trio.sleep(1.5 * LATENCY_S)
        world.network.disconnect_host("b", silent=False)
        await world.serve_soon("b")
        await stream.aclose()
        await trio.sleep(2)
        assert world.heard.count(("b", 1000)) == 1
        assert world.network.connection_count == 0


async def test_a_duplicate_waits_for_the_end_of_a_cut(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.plan(frames_of(FETCH, is_request=True), FrameFate.DUPLICATE)
        stream = await world.connect("a", "b")
        await stream.send_all(request_frame(1000))
        await trio.sleep(1.5 * LATENCY_S)
        world.network.isolate("b")
        await trio.sleep(5)
        assert len(world.heard) == 1
        world.network.heal()
        await trio.sleep(5)
        assert len(world.heard) == 2


async def test_what_is_stopped_is_not_duplicated(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.clog("a", "b")
        world.network.plan(frames_of(FETCH, is_request=True), FrameFate.DUPLICATE)
        await stream.send_all(request_frame(1000))
        await trio.sleep(5)
        world.network.heal()
        assert await stream.receive_some()
        await trio.sleep(5)
        assert world.heard == [("b", 1000)]


async def test_planned_faults_meet_what_they_were_planned_for(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        world.network.plan(frames_of(VOTE, is_request=True, target="c"), FrameFate.RESET, times=2)
        assert await world.ask("a", "c") == ANSWERED
        assert await world.ask("a", "b", api=VOTE) == ANSWERED
        assert await world.ask("a", "c", api=VOTE) == NOTHING
        assert await world.ask("b", "c", api=VOTE) == NOTHING
        assert await world.ask("a", "c", api=VOTE, reconnect=True) == ANSWERED
        world.network.lose_answers(API_VERSIONS, times=100)
        assert await world.ask("a", "b", api=API_VERSIONS) == HEARD
        world.network.forget_plans()
        assert await world.ask("a", "b", api=API_VERSIONS, reconnect=True) == ANSWERED


async def test_probabilities_are_met_and_a_link_without_any_is_sound(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        world.network.set_link("a", "b", reset=0.1, cut_frames=0.1, duplicates=0.2)
        for _ in range(200):
            await world.ask("a", "b", reconnect=True)
            assert await world.ask("a", "c") == ANSWERED
        faults = world.network.faults
        assert 5 < faults["reset"] < 40
        assert 5 < faults["cut"] < 40
        assert 20 < faults["duplicate"] < 65
        before = sum(faults.values())
        world.network.end_faults()
        for _ in range(50):
            assert await world.ask("a", "b", reconnect=True) == ANSWERED
        assert sum(faults.values()) == before


async def test_the_end_of_all_faults_ends_cuts_plans_and_settings(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.isolate("a")
        world.network.lose_answers(FETCH, times=100)
        world.network.set_default_link(latency=Latency.constant(5))
        world.network.set_link("a", "b", loss=1.0)
        world.network.end_faults()
        assert await world.ask("a", "b", within_s=0.1) == ANSWERED


@pytest.mark.parametrize("name", ["loss", "reset", "cut_frames", "duplicates"])
def test_an_invalid_probability_is_refused_and_changes_nothing(name: str) -> None:
    network = EchoWorld(()).network
    for value in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"{name}={value}: a probability"):
            network.set_link("a", "b", **{name: value})
        with pytest.raises(ValueError, match=f"{name}={value}: a probability"):
            network.set_default_link(**{name: value})
    network.set_link("a", "b", latency=Latency.constant(1))
    assert not network.link("a", "b").has_faults


@pytest.mark.parametrize(
    "make",
    [
        lambda: Latency.constant(-1),
        lambda: Latency.constant(float("inf")),
        lambda: Latency.constant(float("nan")),
        lambda: Latency.uniform(0.2, 0.1),
        lambda: Latency.long_tailed(0.2, 0.1, 0.3),
        lambda: Latency.long_tailed(0.1, 0.3, 0.2),
    ],
)
def test_latencies_that_make_no_sense_are_refused(make) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()
