"""Hosts that die: by kill -9, where the kernel tells the peers, and by losing their power, where nobody does."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.hosts import BACKLOG
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.network import ImmediateStream
from tests.simulation.echo_world import ANSWERED, LATENCY_S, NOTHING, EchoWorld, request_frame

Clock = trio.testing.MockClock


async def test_the_peers_of_a_killed_process_see_a_reset(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b", "c")).running() as world:
        opened, accepted = await world.connect("a", "b"), await world.connect("b", "c")
        begun = trio.current_time()
        world.network.disconnect_host("b", silent=False)
        with pytest.raises(trio.BrokenResourceError):
            await opened.receive_some()
        assert trio.current_time() - begun == pytest.approx(LATENCY_S)
        with pytest.raises(trio.BrokenResourceError):
            accepted.send_now(b"from the grave")
        await accepted.aclose()
        await opened.aclose()
        await trio.sleep(1)
        assert world.network.connection_count == 0, "c has seen a reset too, and closed"


async def test_what_a_killed_process_had_sent_arrives_before_the_reset(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("b", "a")
        await stream.send_all(request_frame(1000))
        world.network.disconnect_host("b", silent=False)
        await trio.sleep(1)
        assert world.heard == [("a", 1000)]


async def test_the_reset_comes_behind_what_takes_longest(autojump_clock: Clock) -> None:
    network = EchoWorld(()).network
    listener = await network.seen_from("a").listen(Endpoint("a", 9093))
    near = await network.seen_from("b").connect(listener.endpoint)
    far = await listener.accept()
    begun = trio.current_time()
    for latency_s in (5, 0):
        network.set_link("b", "a", latency=Latency.constant(latency_s))
        await near.send_all(b"x")
    network.disconnect_host("b", silent=False)
    assert [await far.receive_some() for _ in range(2)] == [b"x", b"x"]
    with pytest.raises(trio.BrokenResourceError):
        await far.receive_some()
    assert trio.current_time() - begun == 5


async def test_nothing_arrives_that_follows_what_never_will(autojump_clock: Clock) -> None:
    """The sender dies while a request of its is stopped: what came after that could pass, but not without it."""
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("b", "a")
        world.network.one_way("b", "a")
        await stream.send_all(request_frame(1000))
        await stream.send_all(request_frame(1001, API_VERSIONS))
        world.network.disconnect_host("b", silent=False)
        await trio.sleep(1)
        assert world.heard == []
        assert world.network.connection_count == 0


async def test_connecting_to_where_a_process_was_killed_is_refused(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.disconnect_host("b", silent=False)
        begun = trio.current_time()
        with pytest.raises(NetworkError, match="refused"):
            await world.connect("a", "b")
        assert trio.current_time() - begun == pytest.approx(2 * LATENCY_S)


async def test_connecting_to_a_machine_that_is_off_waits_for_it(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.disconnect_host("b", silent=True)
        begun = trio.current_time()

        async def restart() -> None:
            await trio.sleep(2)
            await world.serve("b")

        world.nursery.start_soon(restart)
        await world.connect("a", "b")
        assert trio.current_time() - begun == pytest.approx(3 + 2 * LATENCY_S)


async def test_connecting_to_a_machine_that_stays_off_fails_in_the_end(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.disconnect_host("b", silent=True)
        begun = trio.current_time()
        with pytest.raises(NetworkError, match="timed out"):
            await world.connect("a", "b")
        assert trio.current_time() - begun == pytest.approx(127)


async def test_a_machine_that_is_on_again_without_its_process_refuses(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.disconnect_host("b", silent=True)
        world.network.power_on("b")
        with pytest.raises(NetworkError, match="refused"):
            await world.connect("a", "b")


@pytest.mark.parametrize("asks", [False, True], ids=["idle", "with a request unanswered"])
async def test_a_connection_to_a_powered_off_machine_is_half_open(autojump_clock: Clock, asks: bool) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.disconnect_host("b", silent=True)
        begun = trio.current_time()
        if asks:
            await stream.send_all(request_frame(1000))
            await trio.sleep(80)
            assert stream.send_now(b"x") == 1, "nothing tells that nobody is there"
        with pytest.raises(trio.BrokenResourceError, match="timed out"):
            await stream.receive_some()
        assert trio.current_time() - begun == pytest.approx(90)
        with pytest.raises(trio.BrokenResourceError):
            stream.send_now(b"x")


async def test_a_cut_that_comes_and_goes_brings_no_dead_machine_back(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.disconnect_host("b", silent=True)
        world.network.isolate("a")
        world.network.heal()
        with trio.fail_after(91), pytest.raises(trio.BrokenResourceError, match="timed out"):
            await stream.receive_some()


async def test_a_half_open_connection_is_reset_at_the_next_send(
    autojump_clock: Clock,
) -> None:
    """What was sent in vain goes out again after 0.2, 0.6, 1.4, 3.0 s: the new kernel knows no such connection."""
    async with EchoWorld(("a", "b")).running() as world:
        asks, idles = await world.connect("a", "b"), await world.connect("a", "b")
        world.network.disconnect_host("b", silent=True)
        begun = trio.current_time()
        await asks.send_all(request_frame(1000))
        await trio.sleep(2)
        await world.serve_soon("b")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await asks.receive_some()
        assert trio.current_time() - begun == pytest.approx(3.0 + 2 * LATENCY_S, abs=0.02)
        assert idles.send_now(request_frame(1001)) > 0
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await idles.receive_some()
        assert world.heard == []


async def test_a_reset_that_a_cut_swallows_leaves_the_peer_half_open(autojump_clock: Clock) -> None:
    """A reset is sent once.  The peer learns of it when it sends something itself, the cut being over."""
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.isolate("b")
        world.network.disconnect_host("b", silent=False)
        await trio.sleep(10)
        world.network.heal()
        with trio.move_on_after(10) as patience:
            await stream.receive_some()
        assert patience.cancelled_caught
        assert stream.send_now(request_frame(1000)) > 0
        begun = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        assert trio.current_time() - begun == pytest.approx(2 * LATENCY_S)


async def test_a_reset_on_a_clogged_link_comes_late(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        before, during = await world.connect("a", "b"), await world.connect("b", "a")
        world.network.disconnect_host("b", silent=False)
        world.network.clog("b", "a")
        await trio.sleep(10)
        assert before.send_now(b"x") == 1
        world.network.heal()
        begun = trio.current_time()
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await before.receive_some()
        assert trio.current_time() - begun == pytest.approx(LATENCY_S)
        await before.aclose()
        await during.aclose()
        await trio.sleep(1)
        assert world.network.connection_count == 0


@pytest.mark.parametrize("is_cut_meanwhile", [False, True])
async def test_keep_alive_finds_the_end_of_a_stuck_connection(autojump_clock: Clock, is_cut_meanwhile: bool) -> None:
    """The end of the stream waits behind what is stopped; the other side asks, and nobody knows the connection."""
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.one_way("a", "b")
        await stream.send_all(request_frame(1000))
        await stream.aclose()
        if is_cut_meanwhile:
            world.network.heal(world.network.isolate("a"))
        await trio.sleep(89)
        assert world.network.connection_count == 1
        await trio.sleep(2)
        assert world.network.connection_count == 0


async def test_bytes_for_a_closed_stream_are_answered_with_a_reset(autojump_clock: Clock) -> None:
    near, far = await pair_of(EchoWorld(()))
    await near.send_all(b"too late")
    await far.aclose()
    assert await near.receive_some() == b"", "the end was sent first"
    await trio.sleep(LATENCY_S)
    with pytest.raises(trio.BrokenResourceError):
        near.send_now(b"x")


async def test_and_so_is_what_a_cut_has_stopped_once_it_gets_there(autojump_clock: Clock) -> None:
    world = EchoWorld(())
    near, far = await pair_of(world)
    world.network.clog("a", "b")
    await near.send_all(b"too late")
    await far.aclose()
    await trio.sleep(10)
    assert near.send_now(b"x") == 1
    world.network.heal()
    await trio.sleep(3 * LATENCY_S)
    with pytest.raises(trio.BrokenResourceError):
        near.send_now(b"x")


async def pair_of(world: EchoWorld) -> tuple[ImmediateStream, ImmediateStream]:
    """Both ends of a connection from a to b."""
    listener = await world.network.seen_from("b").listen(Endpoint("b", 9093))
    near = await world.network.seen_from("a").connect(listener.endpoint)
    return near, await listener.accept()


async def test_a_request_of_a_process_that_gave_up_still_arrives(autojump_clock: Clock) -> None:
    """Its kernel keeps sending what it had taken, though the connection is closed."""
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.isolate("b")
        await stream.send_all(request_frame(1000))
        await stream.aclose()
        await trio.sleep(1)
        world.network.heal()
        await trio.sleep(1)
        assert world.heard == [("b", 1000)]
        assert world.network.connection_count == 0


async def test_a_killed_process_leaves_no_unsent_bytes_behind(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        stream = await world.connect("a", "b")
        world.network.clog("a", "b")
        await stream.send_all(request_frame(1000))
        world.network.disconnect_host("a", silent=False)
        world.network.heal()
        await trio.sleep(100)
        assert world.heard == []
        assert world.network.connection_count == 0


async def test_a_host_that_comes_back_is_reached(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        for silent in (False, True):
            assert await world.ask("a", "b") == ANSWERED
            world.network.disconnect_host("b", silent=silent)
            assert await world.ask("a", "b") == NOTHING
            await world.serve_soon("b")
            assert await world.ask("a", "b", reconnect=True) == ANSWERED


async def test_a_machine_is_on_again_when_its_next_process_connects(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        world.network.disconnect_host("b", silent=True)
        assert not world.network.is_up("b")
        assert await world.ask("b", "a") == ANSWERED
        assert world.network.is_up("b")


async def test_the_last_steps_of_an_ended_process_have_no_effect(autojump_clock: Clock) -> None:
    async with EchoWorld(("a", "b")).running() as world:
        ended = world.network.seen_from("a")
        world.network.disconnect_host("a", silent=True)
        with pytest.raises(NetworkError, match="down"):
            await ended.connect(Endpoint("b", 9093))
        with pytest.raises(OSError, match="down"):
            await ended.listen(Endpoint("a", 9093))
        assert not world.network.is_up("a")
        assert await world.ask("b", "a") == NOTHING
        await world.serve_soon("a")
        assert await world.ask("b", "a", reconnect=True) == ANSWERED


async def test_who_connects_to_a_full_queue_waits_for_room(autojump_clock: Clock) -> None:
    network = EchoWorld(()).network
    listener = await network.seen_from("b").listen(Endpoint("b", 9093))
    for _ in range(BACKLOG):
        await network.seen_from("a").connect(listener.endpoint)
    with trio.move_on_after(10) as patience:
        await network.seen_from("a").connect(listener.endpoint)
    assert patience.cancelled_caught
    await (await listener.accept()).aclose()
    await network.seen_from("a").connect(listener.endpoint)


async def test_a_cancelled_connect_leaves_no_connection(autojump_clock: Clock) -> None:
    """The other side may have seen it already; it then sees its end as well."""
    async with EchoWorld(("a", "b")).running() as world:
        with trio.move_on_after(1.5 * LATENCY_S):
            await world.connect("a", "b")
        await trio.sleep(1)
        assert world.network.connection_count == 0


def test_a_host_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="host=''"):
        EchoWorld(()).network.seen_from("")
