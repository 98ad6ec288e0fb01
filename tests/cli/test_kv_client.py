"""`kraft kv` and endpoints that answer, but not as a gateway does: other servers, proxies, a gateway that is killed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kraft_trio.cli import run

BROKEN_OFF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


def answer(status: str, body: str) -> bytes:
    data = body.encode("latin-1")
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


@contextmanager
def serving(data: bytes) -> Iterator[str]:
    """The URL of a server that gives this answer to one request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                length = 0
                while (line := lines.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                lines.read(length)
                connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


NOT_OF_A_GATEWAY = [
    (answer("404 Not Found", '{"error": "no such path"}'), "404 Not Found"),
    (answer("502 Bad Gateway", '{"message": null}'), "502 Bad Gateway"),
    (answer("503 Unavailable", "<html>"), "503 Unavailable"),
    (answer("200 OK", "<html>"), "no answer of a gateway: "),
    (answer("200 OK", "\xff"), "no answer of a gateway: "),
    (answer("200 OK", "[]"), "no answer of a gateway: "),
    (BROKEN_OFF, ""),
]


@pytest.mark.parametrize(("data", "reason"), NOT_OF_A_GATEWAY)
def test_the_error_names_the_endpoint(data: bytes, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(data) as url:
        assert run(["kv", "--endpoints", url, "get", "key"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kraft: error: {url}: {reason}")


@pytest.mark.parametrize(("data", "reason"), NOT_OF_A_GATEWAY)
def test_the_next_endpoint_is_asked(data: bytes, reason: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serving(data) as url, serving(answer("200 OK", '{"kvs": [{"key": "a2V5", "value": "b25l"}]}')) as good:
        assert run(["kv", "--endpoints", f"{url},{good}", "get", "key"]) == 0
    assert capsysbinary.readouterr().out == b"key\none\n"


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("watch key", answer("200 OK", "<html>\n")),
        ("watch key", answer("200 OK", "[]\n")),
        ("watch key", answer("200 OK", "{}\n")),
        ("watch key", answer("200 OK", '{"error": "no"}\n')),
        ("watch key", answer("200 OK", '{"result": {"events": [{"kv')),
        ("watch key", BROKEN_OFF),
        ("lease keep-alive --once 1", answer("200 OK", "")),
    ],
)
def test_a_stream_that_breaks_off_is_one_line(words: str, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(data) as url:
        assert run(["kv", "--endpoints", url, *words.split()]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kraft: error: {url}: ")
