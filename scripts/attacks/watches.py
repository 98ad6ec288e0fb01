"""Watches from an old revision over large values, half of them never read, and thousands of watches on few keys."""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import ExitStack

from harness.waiting import wait_until
from scripts.attacks.arena import ANSWER_S, HANG_S, Arena, Hostile, refusable
from scripts.attacks.quorum import KV, WITH_KEYS

SETTINGS = {"kraft.state.machine": "kv", WITH_KEYS[KV]: ""}
VALUES = 40
VALUE_BYTES = 700_000
CONNECTIONS = 20
WATCHES = 1000
"""On one stream."""


def play(arena: Arena) -> None:
    """Watch what was written, and all of it deleted at once; then wait for changes of one key on many streams."""
    value = base64.b64encode(bytes(VALUE_BYTES)).decode()
    for number in range(VALUES):
        _post(arena, "put", {"key": _base64(b"large%d" % number), "value": value})
    _post(arena, "deleterange", {"key": _base64(b"large"), "range_end": _base64(b"largf")})
    old = {"key": "AA==", "range_end": "AA==", "start_revision": 2, "prev_kv": True}
    with ExitStack() as streams:
        for number in range(CONNECTIONS):
            stream = _watch(arena, [old] * 3)
            streams.callback(stream.close)
            if number % 2:
                stream.throw_away()
        arena.wait_for_commits(arena.count(500, 50))
    with ExitStack() as streams:
        for _ in range(arena.count(10, 2)):
            stream = _watch(arena, [{"key": _base64(b"small%d" % number)} for number in range(WATCHES)])
            streams.callback(stream.close)
            stream.throw_away()
        for _ in range(arena.count(20, 5)):
            puts = [{"request_put": {"key": _base64(b"small%d" % number)}} for number in range(128)]
            _post(arena, "txn", {"success": puts})
        arena.wait_for_commits(arena.count(500, 50))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _post(arena: Arena, operation: str, message: object) -> None:
    """Until it is accepted."""
    body = json.dumps(message).encode()
    endpoint = arena.endpoint(KV)

    def is_accepted() -> bool:
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=HANG_S)
        with refusable():
            connection.request("POST", f"/v3/kv/{operation}", body)
            arena.sent.frames += 1
            arena.sent.bytes += len(body)
            return connection.getresponse().status == 200
        return False

    wait_until(f"{operation} is accepted", is_accepted, HANG_S)


def _watch(arena: Arena, watches: list[dict[str, object]]) -> Hostile:
    requests = [{"create_request": watch} for watch in watches] + [{"progress_request": {}}]
    body = "".join(map(json.dumps, requests)).encode()
    stream = arena.connect(KV, seconds=ANSWER_S)
    stream.send_bytes(b"POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return stream
