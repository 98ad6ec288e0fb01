"""What every network must do: the real one and the simulated one pass the same tests."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.client.connecting import open_connection
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.wire.network import ImmediateStream, Listener, Network
from kraft_trio.wire.tcp_network import TcpNetwork

MUCH = bytes(range(256)) * 20_000


@attrs.frozen
class Place:
    """Two hosts, and an address of the second one's that any port can be bound at."""

    client: Network
    server: Network
    address: Endpoint
    unknown_host: str

    @asynccontextmanager
    async def listening(self):
        with trio.fail_after(10):
            listener = await self.server.listen(self.address)
            try:
                yield listener
            finally:
                await listener.aclose()

    async def pair(self, listener: Listener) -> tuple[ImmediateStream, ImmediateStream]:
        near = await self.client.connect(listener.endpoint)
        return near, await listener.accept()

    @asynccontextmanager
    async def connected(self):
        async with self.listening() as listener:
            near, far = await self.pair(listener)
            async with near, far:
                yield near, far


@pytest.fixture(params=["tcp", "simulated"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "tcp":
        return Place(TcpNetwork(), TcpNetwork(), Endpoint("127.0.0.1", 0), "no-such-host.invalid")
    network = SimulatedNetwork(random.Random(0))
    return Place(network.seen_from("a"), network.seen_from("b"), Endpoint("b", 0), "no-such-host.invalid")


async def received(stream: ImmediateStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        wanted = min(1000, size - len(data))
        piece = await stream.receive_some(wanted)
        assert 0 < len(piece) <= wanted
        data += piece
    return bytes(data)


async def test_bytes_arrive_in_order_in_both_directions(place: Place) -> None:
    async with place.connected() as (near, far):
        for piece in (b"one", b"two", bytearray(b"three"), memoryview(b"four")):
            await near.send_all(piece)
        assert await received(far, 15) == b"onetwothreefour"
        assert far.send_now(b"answer") == 6
        assert await received(near, 6) == b"answer"


async def test_more_than_is_taken_at_once_arrives_whole(place: Place) -> None:
    async with place.connected() as (near, far), trio.open_nursery() as nursery:
        nursery.start_soon(near.send_all, MUCH)
        assert await received(far, len(MUCH)) == MUCH


async def test_send_now_takes_what_fits_and_more_once_it_is_read(place: Place) -> None:
    async with place.connected() as (near, far):
        total = 0
        while taken := near.send_now(memoryview(MUCH)[total % 1000 :]):
            total += taken
        assert total > 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(received, far, total)
            await near.wait_send_all_might_not_block()
            assert near.send_now(b"x") == 1
        assert await received(far, 1) == b"x"


async def test_parts_are_sent_as_one(place: Place) -> None:
    async with place.connected() as (near, far):
        assert near.send_now(b"one", memoryview(b"two"), b"three") == 11
        assert await received(far, 11) == b"onetwothree"
        parts = [MUCH[start : start + 1000] for start in range(0, 2_000_000, 1000)]
        taken = near.send_now(*parts)
        assert 0 < taken < 2_000_000
        assert await received(far, taken) == b"".join(parts)[:taken]


async def test_a_sender_waits_for_room_and_can_give_up(place: Place) -> None:
    async with place.connected() as (near, _far):
        with trio.move_on_after(0.05) as patience:
            await near.send_all(MUCH * 4)
        assert patience.cancelled_caught


async def test_the_end_comes_after_the_last_byte_and_stays(place: Place) -> None:
    async with place.connected() as (near, far):
        await near.send_all(b"last")
        await near.aclose()
        assert await received(far, 4) == b"last"
        assert await far.receive_some() == b""
        assert await far.receive_some() == b""


async def test_a_closed_stream_says_so_and_can_be_closed_again(place: Place) -> None:
    async with place.connected() as (near, _far):
        await near.aclose()
        await near.aclose()
        with pytest.raises(trio.ClosedResourceError):
            near.send_now(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await near.send_all(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await near.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await near.wait_send_all_might_not_block()


async def test_closing_wakes_readers(place: Place) -> None:
    async def read(stream: ImmediateStream) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()

    async with place.connected() as (near, _far), trio.open_nursery() as nursery:
        nursery.start_soon(read, near)
        await trio.testing.wait_all_tasks_blocked()
        await near.aclose()


async def test_closing_wakes_senders_that_wait_for_room(place: Place) -> None:
    async def send(stream: ImmediateStream) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(MUCH * 4)

    async with place.connected() as (near, _far), trio.open_nursery() as nursery:
        nursery.start_soon(send, near)
        await trio.testing.wait_all_tasks_blocked()
        await near.aclose()


async def test_sending_to_a_peer_that_has_closed_breaks_the_connection(place: Place) -> None:
    async with place.connected() as (near, far):
        await far.aclose()
        assert await near.receive_some() == b""
        assert near.send_now(b"nobody reads this") > 0, "it cannot be known yet"

        async def send_until_the_answer_to_that_is_here() -> None:
            while True:
                await near.send_all(b"nor this")

        with pytest.raises(trio.BrokenResourceError):
            await send_until_the_answer_to_that_is_here()


async def test_closing_with_bytes_unread_resets_the_connection(place: Place) -> None:
    async with place.connected() as (near, far):
        await near.send_all(b"unread")
        assert await received(far, 1) == b"u", "the rest is here too"
        await far.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await near.receive_some()


async def test_a_reset_wakes_senders_that_wait_for_room(place: Place) -> None:
    async def send(stream: ImmediateStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(MUCH * 4)

    async with place.connected() as (near, far), trio.open_nursery() as nursery:
        nursery.start_soon(send, near)
        assert await received(far, 1) == MUCH[:1]
        await trio.testing.wait_all_tasks_blocked()
        await far.aclose()


async def test_a_cancelled_read_loses_nothing(place: Place) -> None:
    async with place.connected() as (near, far):
        with trio.CancelScope() as scope:
            scope.cancel()
            await far.receive_some()
        with trio.move_on_after(0.01):
            await far.receive_some()
        await near.send_all(b"value")
        with trio.CancelScope() as scope:
            scope.cancel()
            await far.receive_some()
        assert scope.cancelled_caught
        assert await received(far, 5) == b"value"


async def test_two_cannot_read_at_once(place: Place) -> None:
    async with place.connected() as (near, _far), trio.open_nursery() as nursery:
        nursery.start_soon(near.receive_some)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await near.receive_some()
        nursery.cancel_scope.cancel()


async def test_bytes_sent_before_the_other_side_accepts_arrive(place: Place) -> None:
    async with place.listening() as listener:
        near = await place.client.connect(listener.endpoint)
        await near.send_all(b"early")
        far = await listener.accept()
        async with near, far:
            assert await received(far, 5) == b"early"


async def test_connections_are_accepted_in_the_order_they_were_opened(place: Place) -> None:
    async with place.listening() as listener:
        opened = [await place.client.connect(listener.endpoint) for _ in range(5)]
        for number, near in enumerate(opened):
            await near.send_all(bytes([number]))
        for number in range(5):
            far = await listener.accept()
            assert await received(far, 1) == bytes([number])
            await far.aclose()
        for near in opened:
            await near.aclose()


async def test_connecting_to_where_nobody_listens_is_refused(place: Place) -> None:
    async with place.listening() as listener:
        endpoint = listener.endpoint
    with pytest.raises(NetworkError, match="Connection refused"):
        await open_connection(place.client, endpoint, "test", 1000)


async def test_connecting_to_an_unknown_name_is_an_error(place: Place) -> None:
    with pytest.raises(NetworkError, match="cannot connect"):
        await place.client.connect(Endpoint(place.unknown_host, 9093))


async def test_a_listener_reports_its_address_and_holds_it_exclusively(place: Place) -> None:
    async with place.listening() as first, place.listening() as second:
        assert first.endpoint.host == second.endpoint.host == place.address.host
        assert 0 not in {first.endpoint.port, second.endpoint.port}
        assert first.endpoint.port != second.endpoint.port
        with pytest.raises(OSError, match="in use"):
            await place.server.listen(first.endpoint)


async def test_an_address_that_is_not_ours_cannot_be_bound(place: Place) -> None:
    with pytest.raises(OSError, match="assign"):
        await place.server.listen(Endpoint("192.0.2.1", 9093))


async def test_closing_a_listener_wakes_acceptors_and_keeps_streams(place: Place) -> None:
    async def accept(listener: Listener) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()

    async with place.listening() as listener:
        near, far = await place.pair(listener)
        async with near, far, trio.open_nursery() as nursery:
            nursery.start_soon(accept, listener)
            await trio.testing.wait_all_tasks_blocked()
            await listener.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await listener.accept()
            await near.send_all(b"still here")
            assert await received(far, 10) == b"still here"


async def test_a_listener_that_closes_resets_what_it_has_not_accepted(place: Place) -> None:
    async with place.listening() as listener:
        near = await place.client.connect(listener.endpoint)
        async with near:
            await listener.aclose()
            with pytest.raises(trio.BrokenResourceError):
                await near.receive_some()


async def test_a_port_can_be_bound_again_once_its_listener_is_closed(place: Place) -> None:
    async with place.listening() as listener:
        endpoint = listener.endpoint
    again = await place.server.listen(endpoint)
    near, far = await place.pair(again)
    async with near, far:
        await near.send_all(b"x")
        assert await received(far, 1) == b"x"
    await again.aclose()


async def test_both_ends_can_send_in_the_step_that_provokes_it(place: Place) -> None:
    async with place.connected() as (near, far):
        assert isinstance(near, ImmediateStream)
        assert isinstance(far, ImmediateStream)
