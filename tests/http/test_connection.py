"""One HTTP connection and its client, whatever the client does.  Time is virtual."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.http import connection as http_connection
from kraft_trio.http.connection import MAX_AHEAD_BYTES, HttpConnection
from kraft_trio.http.exchange import BodyTooLarge, Exchange
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.parser import RequestParser

MAX_BODY_BYTES = 1000
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
    """Echoes bodies, and streams in answer to /stream until the client leaves."""

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
        elif exchange.path == "/parts":
            while part := await exchange.next_part():
                await exchange.stream(part)
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
async def connected(pair: Pair = trio.testing.memory_stream_pair) -> AsyncIterator[Client]:
    """A client of one connection."""
    ours, theirs = pair()
    application = Application()
    connection = HttpConnection(MemoryStream(theirs), application, LIMITS, refusal)
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


async def test_requests_follow_one_another(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        for _ in range(3):
            await client.send(POST)
            answer = await client.until(b"\r\n\r\nabc")
            assert answer.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: ")
            assert b"content-length: 3\r\n" in answer
            assert b"connection" not in answer


async def test_pipelined_requests_are_answered_in_turn(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(POST + GET + POST.replace(b"/a", b"/c") + GET[:9])
        await client.send(GET[9:])
        assert (await client.until(b"\r\n\r\nabc")).count(b"HTTP/1.1 200") == 1
        assert (await client.until(b"\r\n\r\nabc")).count(b"HTTP/1.1 200") == 2
        await client.until(b"content-length: 0\r\n\r\n")
        served = [("POST", "/a", b"abc"), ("GET", "/b", b""), ("POST", "/c", b"abc"), ("GET", "/b", b"")]
        assert client.application.served == served


async def test_a_client_that_never_waits_lets_others_have_their_turns(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    ours, theirs = trio.testing.memory_stream_pair()
    application = Application()
    await ours.send_all(GET * 100)
    await ours.send_eof()
    nursery.start_soon(take_turns)
    await HttpConnection(MemoryStream(theirs, takes_all=True), application, LIMITS, refusal).run()
    assert len(application.served) == 100
    assert turns >= 50
    nursery.cancel_scope.cancel()


async def test_a_request_byte_by_byte(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        for byte in POST:
            await client.send(bytes([byte]))
        await client.until(b"\r\n\r\nabc")


async def test_a_chunked_body(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await client.send(b"2\r\nbc\r\n0\r\n\r\n")
        await client.until(b"\r\n\r\nabc")
        await client.send(GET)
        await client.until(b"content-length: 0\r\n\r\n")


class Part(bytes):
    """Notes the size of what is copied to put it at the end."""

    copied = 0

    def __radd__(self, before: bytes | bytearray) -> bytes:
        if isinstance(before, bytearray):
            return NotImplemented
        Part.copied += len(before)
        return before + bytes(self)


async def test_a_body_in_many_parts_is_not_copied_with_each(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestParser, "on_body", lambda parser, data: parser._events.append(Part(data)))
    async with connected() as client:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        await client.send(b"1\r\na\r\n" * MAX_BODY_BYTES + b"0\r\n\r\n")
        await client.until(b"\r\n\r\n" + b"a" * MAX_BODY_BYTES)
    assert Part.copied == 0


async def test_a_body_counts_as_memory_until_its_request_is_answered(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "LARGE_BODY_BYTES", 2)
    async with connected() as client:
        memory = client.connection._memory
        await client.send(POST[:-1])
        await trio.testing.wait_all_tasks_blocked()
        assert memory.taken == 2
        await client.send(POST[-1:])
        await client.until(b"\r\n\r\nabc")
        assert memory.taken == 0
        await client.send(POST[:-1])
        await trio.testing.wait_all_tasks_blocked()
        memory.hold(client.connection, LIMITS.body_bytes + 1)
        assert await client.rest() == b""
        assert memory.taken == 0


async def test_a_stream_in_both_directions(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /parts HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        for part in (b"a", b"b"):
            await client.send(b"1\r\n%s\r\n" % part)
            await client.until(b"1\r\n%s\r\n" % part)
        await trio.sleep(8000)
        await client.send(b"0\r\n\r\n")
        await client.until(b"0\r\n\r\n")
        await client.send(POST)
        await client.until(b"\r\n\r\nabc")


async def test_a_client_of_http_1_0(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /parts HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc")
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        assert body == b"abc"


async def test_a_client_of_http_1_0_is_not_told_to_go_on(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"abc")
        assert (await client.rest()).startswith(b"HTTP/1.1 200 ")


async def test_who_asks_for_the_end_gets_it(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(POST.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + POST)
        assert (await client.rest()).count(b"connection: close\r\n") == 1
        assert len(client.application.served) == 1


async def test_head_gets_no_body(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(POST.replace(b"POST", b"HEAD"))
        await client.until(b"content-length: 3\r\n\r\n")
        await client.send(GET)
        await client.until(b"HTTP/1.1 200")
        assert not client.received.startswith(b"abc")


async def test_who_expects_to_be_told_to_go_on(autojump_clock: trio.testing.MockClock) -> None:
    head, body = POST[:-3].replace(b"\r\n", b"\r\nExpect: 100-Continue\r\n", 1), POST[-3:]
    async with connected() as client:
        await client.send(head)
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await client.until(b"abc")).startswith(b"HTTP/1.1 200 OK\r\n")
        await client.send(head + body)
        assert (await client.until(b"abc")).startswith(b"HTTP/1.1 200 OK\r\n"), "the body was there already"


async def test_a_large_body_is_refused_before_it_comes(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        head = b"POST /a HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n"
        await client.send(head)
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close\r\n" in answer


async def test_a_large_body_in_chunks_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        await client.send(b"1f4\r\n%s\r\n" % bytes(500) * 3)
        assert (await client.until(b"too large")).startswith(b"HTTP/1.1 400 ")
        await client.send(bytes(100_000))
        assert not client.ended.is_set(), "a client that still sends might lose the answer"


async def test_who_is_refused_can_read_why(autojump_clock: trio.testing.MockClock) -> None:
    """The server reads on for a while: a connection that is closed with unread bytes takes the answer with it."""
    async with connected() as client:
        await client.send(b"no HTTP\r\n\r\n")
        answer = await client.until(b"}")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b'{"error": "no HTTP/1.1 request' in answer
        assert b"connection: close\r\n" in answer
        await client.send(bytes(100_000))
        assert not client.ended.is_set()


async def test_an_error_in_a_body_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        assert client.application.served == []


async def test_an_error_in_a_body_ends_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(b"POST /parts HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n")
        answer = await client.rest()
        assert answer.count(b"HTTP/1.1") == 1
        assert answer.endswith(b"1\r\na\r\n"), "not as if it were complete"


@pytest.mark.parametrize("sent", [b"", POST[:20], POST[:-1]], ids=["nothing", "half a head", "half a body"])
async def test_a_client_that_leaves(autojump_clock: trio.testing.MockClock, sent: bytes) -> None:
    began = trio.current_time()
    async with connected() as client:
        await client.send(sent)
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.aclose()
        await client.ended.wait()
    assert client.application.served == []
    assert trio.current_time() == began, "it was not noticed before a timeout"


async def test_who_sends_its_last_request_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(POST)
        assert isinstance(client.stream.send_stream, trio.testing.MemorySendStream)
        client.stream.send_stream.close()
        assert (await client.rest()).endswith(b"abc")


@pytest.mark.parametrize("path", [b"/stream", b"/wait"])
async def test_the_end_of_a_waiting_client_is_noticed(autojump_clock: trio.testing.MockClock, path: bytes) -> None:
    async with connected() as client:
        await client.send(GET.replace(b"/b", path))
        await trio.testing.wait_all_tasks_blocked()
        assert not client.application.left.is_set()
        await client.stream.aclose()
        await client.application.left.wait()


async def test_a_waiting_client_may_send_its_next_requests(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(GET.replace(b"/b", b"/wait"))
        await client.send(POST)
        await trio.testing.wait_all_tasks_blocked()
        assert not client.application.left.is_set()
        await client.send(bytes(MAX_AHEAD_BYTES + 1))
        await client.application.left.wait()


TIMEOUTS = {
    "between requests": (b"", b"", LIMITS.idle_s),
    "in a head": (POST[:30], b"HTTP/1.1 408 ", LIMITS.head_s),
    "in a body": (POST[:-1], b"HTTP/1.1 408 ", LIMITS.body_s),
}


@pytest.mark.parametrize(("sent", "answer", "seconds"), TIMEOUTS.values(), ids=TIMEOUTS)
async def test_a_client_that_is_too_slow(
    autojump_clock: trio.testing.MockClock, sent: bytes, answer: bytes, seconds: float
) -> None:
    async with connected() as client:
        await client.send(POST)
        await client.until(b"\r\n\r\nabc")
        began = trio.current_time()
        if sent:
            await client.send(sent)
        assert (await client.rest())[: len(answer or b"x")] == answer
        assert trio.current_time() - began == seconds


async def trickle(client: Client, sent: bytes) -> None:
    for byte in sent:
        await trio.sleep(10)
        await client.send(bytes([byte]))


@pytest.mark.parametrize(
    "sent", [b"GET /" + b"b" * 100, POST.replace(b"3", b"100") + bytes(50)], ids=["a head", "a body"]
)
async def test_a_trickle_does_not_count_as_progress(autojump_clock: trio.testing.MockClock, sent: bytes) -> None:
    async with connected() as client:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle, client, sent)
            assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
            assert trio.current_time() - began <= 10 + LIMITS.body_s
            nursery.cancel_scope.cancel()
        assert client.application.served == []


async def test_a_client_that_does_not_read(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(trio.testing.lockstep_stream_pair) as client:
        began = trio.current_time()
        await client.send(POST)
        await client.ended.wait()
        assert trio.current_time() - began == LIMITS.send_s


async def test_a_stream_may_be_silent(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(GET.replace(b"/b", b"/stream"))
        await client.until(b"5\r\nfirst\r\n")
        await trio.sleep(8000)
        assert not client.application.left.is_set()


async def test_the_end_of_the_server_ends_idle_connections(autojump_clock: trio.testing.MockClock) -> None:
    for path in (None, b"/stream"):
        async with connected() as client:
            if path is not None:
                await client.send(GET.replace(b"/b", path))
                await client.until(b"first")
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            client.connection.end()
            await client.rest()
            assert trio.current_time() == began


async def test_the_end_of_the_server_lets_a_request_end(autojump_clock: trio.testing.MockClock) -> None:
    async with connected() as client:
        await client.send(POST[:-3])
        await trio.testing.wait_all_tasks_blocked()
        client.connection.end()
        await client.send(b"abc")
        answer = await client.rest()
        assert answer.endswith(b"abc")
        assert b"connection: close\r\n" in answer


async def test_a_connection_can_be_cut_within_a_request(autojump_clock: trio.testing.MockClock) -> None:
    """A request that its client never ends, and one that waits."""
    for sent in (POST[:-1], GET.replace(b"/b", b"/wait")):
        async with connected() as client:
            await client.send(sent)
            await trio.testing.wait_all_tasks_blocked()
            client.connection.cut()
            assert await client.rest() == b""


async def test_a_fault_ends_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with connected() as client:
            await client.send(GET.replace(b"/b", b"/fault"))
            assert await client.rest() == b""
