"""The HTTP server over TCP: connections next to one another, and their end."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.http import server as http_server
from kraft_trio.http.exchange import Exchange
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.places import HttpPlace, HttpPlaces
from kraft_trio.http.server import HttpServer
from kraft_trio.wire.tls_stream import TlsStream

LIMIT_S = 60
GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"


class Serving:
    """A server, and what its application waits for."""

    def __init__(self, listener: trio.SocketListener, limits: HttpLimits) -> None:
        self.server = HttpServer(self._application, listener, limits, str.encode)
        self.held = trio.Event()
        """Whether a request for /held has come."""
        self.released = trio.Event()
        self.ended = trio.Event()
        self._listener = listener

    async def connect(self) -> trio.SocketStream:
        return await trio.testing.open_stream_to_socket_listener(self._listener)

    async def _application(self, exchange: Exchange) -> None:
        if exchange.path == "/fault":
            raise RuntimeError("a fault")
        if exchange.path == "/held":
            self.held.set()
            await self.released.wait()
        await exchange.respond(200, b"{}")

    async def run(self) -> None:
        await self.server.run()
        self.ended.set()


@asynccontextmanager
async def serving(max_connections: int = 10, head_s: float = 30) -> AsyncIterator[Serving]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            served = Serving(listener, HttpLimits(max_connections, head_s=head_s))
            nursery.start_soon(served.run)
            yield served
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving_tls(max_connections: int) -> AsyncIterator[Callable[[], Awaitable[trio.SocketStream]]]:
    """A server that asks for TLS, with an application that is never reached."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def application(exchange: Exchange) -> None:
        raise AssertionError("nobody gets so far")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = HttpServer(application, listener, HttpLimits(max_connections), str.encode, tls=lambda: context)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            yield lambda: trio.testing.open_stream_to_socket_listener(listener)
            nursery.cancel_scope.cancel()


async def ask(client: trio.SocketStream, path: bytes = b"") -> bytes:
    """Send a request, and receive its whole answer, or what comes until the connection ends."""
    await client.send_all(GET % path)
    return await answer_of(client)


async def answer_of(client: trio.SocketStream) -> bytes:
    answer = b""
    while not answer.endswith(b"{}") and (data := await client.receive_some()):
        answer += data
    return answer


async def test_connections_are_served_beside_one_another() -> None:
    async with serving() as served, await served.connect() as one, await served.connect() as other:
        await one.send_all(GET % b"held")
        await served.held.wait()
        for _ in range(2):
            assert (await ask(other)).startswith(b"HTTP/1.1 200 OK")
        served.released.set()
        assert (await answer_of(one)).startswith(b"HTTP/1.1 200 OK")


async def test_a_fault_ends_its_connection_alone() -> None:
    async with serving() as served, await served.connect() as one, await served.connect() as other:
        assert await ask(one, b"fault") == b""
        assert (await ask(other)).startswith(b"HTTP/1.1 200 OK")


async def test_a_connection_too_many_is_closed() -> None:
    async with serving(max_connections=1) as served, await served.connect() as one:
        await ask(one)
        async with await served.connect() as other:
            assert await other.receive_some() == b""
        assert (await ask(one)).startswith(b"HTTP/1.1 200 OK")


async def test_the_end_waits_for_requests_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "GRACE_S", LIMIT_S)
    async with serving() as served, await served.connect() as idle, await served.connect() as one:
        await ask(idle)
        await one.send_all(GET % b"held")
        await served.held.wait()
        served.server.end()
        assert await idle.receive_some() == b""
        with pytest.raises(OSError):
            await served.connect()
        served.released.set()
        assert b"connection: close" in await answer_of(one)
        await served.ended.wait()


async def test_the_end_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "GRACE_S", 0)
    async with serving() as served, await served.connect() as one:
        await one.send_all(GET % b"held")
        await served.held.wait()
        served.server.end()
        assert await answer_of(one) == b""
        await served.ended.wait()


async def test_one_turn_does_one_step_of_a_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many connections have sent their first message of TLS, and each would have it signed now."""
    steps: Counter[int] = Counter()
    sent = trio.Event()
    waiting = 0

    class Handshaking(TlsStream):
        async def start(self, take_turn: Callable[[], Awaitable[object]] | None = None) -> None:
            nonlocal waiting
            waiting += 1
            await sent.wait()
            assert take_turn is not None
            await take_turn()
            steps[LoopTurns.of_this_run().number] += 1
            raise trio.BrokenResourceError

    monkeypatch.setattr(http_server, "TlsStream", Handshaking)
    async with serving_tls(30) as connect, AsyncExitStack() as stack:
        for _ in range(30):
            await stack.enter_async_context(await connect())
        while waiting < 30:
            await trio.lowlevel.checkpoint()
        sent.set()
        while steps.total() < 30:
            await trio.lowlevel.checkpoint()
    assert max(steps.values()) == 1


async def test_connection_that_has_just_lost_its_place_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handshake takes its last step in the turn in which another connection gets the place."""
    done, begun = trio.Event(), trio.Event()

    class Handshaking(TlsStream):
        async def start(self, take_turn: Callable[[], Awaitable[object]] | None = None) -> None:
            begun.set()
            await done.wait()

    monkeypatch.setattr(http_server, "TlsStream", Handshaking)
    places: list[HttpPlace] = []
    enter = HttpPlaces.enter

    def entered(self: HttpPlaces, host: str) -> HttpPlace | str:
        place = enter(self, host)
        assert isinstance(place, HttpPlace)
        places.append(place)
        return place

    monkeypatch.setattr(HttpPlaces, "enter", entered)
    async with serving_tls(1) as connect, await connect() as client:
        await begun.wait()
        done.set()
        places[0].end()
        assert await client.receive_some() == b""


async def test_slow_clients_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LOOK_EVERY_S", 0)
    async with serving(head_s=0) as served, await served.connect() as one:
        await one.send_all(GET[:10])
        assert (await answer_of(one)).startswith(b"HTTP/1.1 408 ")
