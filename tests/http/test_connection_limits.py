"""What a client may take of a connection: time, memory and turns.  Time is virtual."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.http import connection as http_connection
from kraft_trio.http.body_memory import BodyMemory
from kraft_trio.http.connection import HttpConnection
from kraft_trio.http.parser import RequestParser
from tests.http.one_client import (
    GET,
    HELD_BYTES,
    HOST,
    LIMITS,
    MAX_BODY_BYTES,
    POST,
    Application,
    Client,
    MemoryStream,
    connected,
    refusal,
)


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


@pytest.mark.parametrize(("limit", "is_cut"), [(99_999, True), (150_000, False)])
async def test_what_is_not_read_of_a_stream_counts_as_memory(
    autojump_clock: trio.testing.MockClock, limit: int, is_cut: bool
) -> None:
    memory = BodyMemory(limit)
    async with connected(trio.testing.lockstep_stream_pair, memory) as client:
        await client.send(GET.replace(b"/b", b"/pieces"))
        await trio.testing.wait_all_tasks_blocked()
        assert client.ended.is_set() == is_cut
        assert (memory.taken > 0) != is_cut
        if not is_cut:
            await client.until(b"\r\n0\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
            assert not memory.taken


@pytest.mark.parametrize(("limit", "is_cut"), [(HELD_BYTES - 1, True), (2 * HELD_BYTES, False)])
async def test_a_long_answer_counts_as_memory_until_it_is_sent(
    autojump_clock: trio.testing.MockClock, limit: int, is_cut: bool
) -> None:
    memory = BodyMemory(limit)
    async with connected(memory=memory) as client:
        await client.send(GET.replace(b"/b", b"/held"))
        if is_cut:
            assert await client.rest() == b""
        else:
            await client.until(b"\r\n0\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
        assert not memory.taken
