"""`kraft dashboard`: what it serves, to whom, and what it refuses."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kraft_trio.cli import run
from kraft_trio.dashboard.app import MAX_BODY_BYTES, MAX_LOOKERS
from kraft_trio.dashboard.page import page
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.dashboard.server import Dashboard
from kraft_trio.http.binding import bound
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.tcp_network import TcpNetwork

NOBODY = Endpoint("127.0.0.1", 1)
LIMIT_S = 60


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """A dashboard of a quorum that does not answer."""
    watch = QuorumWatch(TcpNetwork(), lambda: [NOBODY], fetch_timeout_ms=1000, wall_clock_ms=lambda: 5)
    with bound("--port", Endpoint("127.0.0.1", 0)) as listening, trio.fail_after(LIMIT_S):
        dashboard = Dashboard(watch, listening, [NOBODY])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dashboard.run)
            yield listening.getsockname()[1]
            nursery.cancel_scope.cancel()


def request(port: int, line: str, headers: str = "", body: str = "", host: str = "127.0.0.1") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def answer(port: int, line: str, body: str = "", host: str = "127.0.0.1") -> tuple[int, bytes]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(port, line, "Connection: close\r\n", body, host))
        content = b"".join([data async for data in stream])
    head, _, content = content.partition(b"\r\n\r\n")
    return int(head.split()[1]), content


async def test_it_serves_the_page_and_explanations() -> None:
    async with served() as port:
        assert await answer(port, "GET /") == (200, page())
        status, content = await answer(port, "POST /v1/explain", json.dumps({"claims": []}))
        assert (status, json.loads(content)["findings"][0]["code"]) == (200, "no-answer")
        status, content = await answer(port, "POST /v1/explain", '{"claims": 1}')
        assert (status, json.loads(content)["error"]) == (400, "claims: 1, expected a list of at most 64 members")
        assert (await answer(port, "GET /v1/explain"))[0] == 405
        assert (await answer(port, "POST /"))[0] == 405
        assert (await answer(port, "GET /v1/quorum"))[0] == 404
        assert (await answer(port, "POST /v1/explain", "x" * (MAX_BODY_BYTES + 1)))[0] == 413


async def test_a_foreign_page_reads_nothing_by_another_name_of_this_machine() -> None:
    async with served() as port:
        assert (await answer(port, "GET /", host="localhost"))[0] == 200
        status, content = await answer(port, "GET /v1/stream", host="rebound.example.com")
        assert status == 403
        assert b"expected an address, localhost" in content


async def test_the_stream_goes_on_though_nobody_answers() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(port, "GET /v1/stream"))
        received = b""
        while received.count(b"event: board\n") < 2:
            received += await stream.receive_some()
        board = next(line for line in received.splitlines() if line.startswith(b"data: {"))
        told = json.loads(board.removeprefix(b"data: "))
        assert [finding["code"] for finding in told["findings"]] == ["no-answer"]
        assert told["claims"][0]["problem"]
        assert told["source"] == {"kind": "dashboard", "bootstrap": str(NOBODY)}


async def test_pages_beyond_a_limit_are_refused() -> None:
    async with served() as port:
        opened = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(MAX_LOOKERS)]
        for stream in opened:
            await stream.send_all(request(port, "GET /v1/stream"))
            assert await stream.receive_some()
        assert (await answer(port, "GET /v1/stream"))[0] == 503
        await opened[0].aclose()
        async with await trio.open_tcp_stream("127.0.0.1", port) as next_one:
            while True:  # the server finds out about the closed one in its own time
                await next_one.send_all(request(port, "GET /v1/stream"))
                if b" 200 " in await next_one.receive_some():
                    break
        for stream in opened:
            await trio.aclose_forcefully(stream)


def test_what_it_cannot_do_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = {
            ("dashboard",): (
                2,
                "give one of --bootstrap-controller and --bootstrap-server (see kraft dashboard --help)",
            ),
            ("dashboard", "--bootstrap-controller", "a"): (1, "--bootstrap-controller a: "),
            ("dashboard", "--bootstrap-controller", "a:1", "--port", "70000"): (2, "'70000' is not"),
            ("dashboard", "--bootstrap-controller", "a:1", "--port", str(port)): (
                1,
                "cannot be bound: Address already",
            ),
        }
        for command, (code, text) in refused.items():
            assert run(command) == code
            assert text in capsys.readouterr().err
