"""What a connection does for its client, whatever the client does.  Time is virtual."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.http.connection import MAX_AHEAD_BYTES
from tests.http.one_client import (
    GET,
    HOST,
    POST,
    connected,
)


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


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_part_of_a_stream_in_pieces_is_one_chunk(
    autojump_clock: trio.testing.MockClock, version: bytes
) -> None:
    content = b"a" * 100_000 + b"b" * 100_000
    async with connected() as client:
        await client.send(GET.replace(b"/b", b"/pieces").replace(b"1.1", version))
        await client.until(b"\r\n\r\n")
        if version == b"1.0":
            assert await client.rest() == content
        else:
            assert await client.until(b"0\r\n\r\n") == b"%x\r\n" % len(content) + content + b"\r\n0\r\n\r\n"
