"""One HTTP connection and its client."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing

from kraft_trio.http.body_memory import BodyMemory
from kraft_trio.http.connection import HttpConnection
from kraft_trio.http.exchange import BodyTooLarge, Exchange
from kraft_trio.http.limits import HttpLimits

MAX_BODY_BYTES = 1000
HELD_BYTES = 100_000
"""What an answer is said to take."""
LIMITS = HttpLimits(connections=1)


def refusal(reason: str) -> bytes:
    return json.dumps({"error": reason}).encode()


Ends = trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]


@attrs.frozen
class MemoryStream:
    """What an HttpConnection needs."""

    ends: Ends
    peer_host: str = "client"
    takes_all: bool = False
    """Whether everything can be sent at once, and gets lost.  Otherwise nothing can be sent at once."""

    def send_now(self, *parts: bytes | memoryview) -> int:
        return sum(map(len, parts)) if self.takes_all else 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.ends.send_all(data)

    async def send_eof(self) -> None:
        await self.ends.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.ends.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.ends.aclose()


@attrs.define
class Application:
    """Echoes bodies, and streams in answer to /stream until the client leaves, and to /pieces one part in pieces."""

    served: list[tuple[str, str, bytes]] = attrs.field(factory=list)
    left: trio.Event = attrs.field(factory=trio.Event)
    """Whether the end of a stream's or a waiter's client was noticed."""

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path == "/stream":
            await exchange.stream(b"first")
            await self._wait(exchange)
        elif exchange.path == "/wait":
            await exchange.body(MAX_BODY_BYTES)
            await self._wait(exchange)
        elif exchange.path == "/held":
            exchange.hold(HELD_BYTES)
            await exchange.stream(b"first")
            await exchange.end()
        elif exchange.path == "/parts":
            while part := await exchange.next_part():
                await exchange.stream(part)
            await exchange.end()
        elif exchange.path == "/pieces":
            async with aclosing(_pieces()) as pieces:
                await exchange.stream_pieces(200_000, pieces)
            await exchange.end()
        elif exchange.path == "/fault":
            raise RuntimeError("a fault")
        else:
            await self._echo(exchange)

    async def _wait(self, exchange: Exchange) -> None:
        try:
            await exchange.wait_for_disconnect()
        finally:
            self.left.set()

    async def _echo(self, exchange: Exchange) -> None:
        try:
            body = await exchange.body(MAX_BODY_BYTES)
        except BodyTooLarge:
            await exchange.respond(400, b"too large")
            return
        self.served.append((exchange.method, exchange.path, body))
        await exchange.respond(200, body)


async def _pieces() -> AsyncGenerator[bytes, None]:
    for piece in (b"a", b"b"):
        yield piece * 100_000


@attrs.define
class Client:
    stream: Ends
    connection: HttpConnection
    application: Application
    ended: trio.Event = attrs.field(factory=trio.Event)
    """Whether the server has let go of the connection."""
    received: bytearray = attrs.field(factory=bytearray)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def until(self, found: bytes) -> bytes:
        """Receive up to and including these bytes, and return everything that has come since the last call."""
        while found not in self.received:
            data = await self.stream.receive_some()
            assert data, bytes(self.received)
            self.received += data
        end = self.received.index(found) + len(found)
        taken = bytes(self.received[:end])
        del self.received[:end]
        return taken

    async def rest(self) -> bytes:
        """Receive everything until the server has ended the connection."""
        async for data in self.stream:
            self.received += data
        return bytes(self.received)

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_for_overdue)
            try:
                await self.connection.run()
            finally:
                self.ended.set()
                nursery.cancel_scope.cancel()

    async def _look_for_overdue(self) -> None:
        while True:
            await trio.sleep(1)
            self.connection.end_if_overdue()


Pair = Callable[[], tuple[Any, Any]]


@asynccontextmanager
async def connected(
    pair: Pair = trio.testing.memory_stream_pair, memory: BodyMemory | None = None
) -> AsyncIterator[Client]:
    """A client of one connection."""
    ours, theirs = pair()
    application = Application()
    connection = HttpConnection(MemoryStream(theirs), application, LIMITS, refusal, memory)
    client = Client(ours, connection, application)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client._serve)
        with trio.fail_after(10_000):
            yield client
            await ours.aclose()
            await client.ended.wait()


HOST = b"Host: a\r\n"
POST = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
GET = b"GET /b HTTP/1.1\r\n" + HOST + b"\r\n"
