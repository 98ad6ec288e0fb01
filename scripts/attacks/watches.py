"""Watches from an old revision over large values, half of them never read, and thousands of watches on few keys."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import (
    DeleteRangeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
    WatchCreateRequest,
    WatchProgressRequest,
    WatchRequest,
)
from scripts.attacks import kv
from scripts.attacks.arena import ANSWER_S, Arena, Hostile
from scripts.attacks.quorum import KV

SETTINGS = kv.SETTINGS
VALUES = 40
VALUE_BYTES = 700_000
CONNECTIONS = 20
WATCHES = 1000
"""On one stream."""
OLD = WatchCreateRequest(b"\0", b"\0", start_revision=2, prev_kv=True)


def play(arena: Arena) -> None:
    """Watch what was written, and all of it deleted at once; then wait for changes of one key on many streams."""
    for number in range(VALUES):
        kv.insist(arena, PutRequest(b"large%d" % number, bytes(VALUE_BYTES)))
    kv.insist(arena, DeleteRangeRequest(b"large", b"largf"))
    with ExitStack() as streams:
        for number in range(CONNECTIONS):
            stream = _watch(arena, streams, [OLD] * 3)
            if number % 2:
                stream.throw_away()
        arena.wait_for_commits(arena.count(500, 50))
    with ExitStack() as streams:
        for _ in range(arena.count(10, 2)):
            small = [WatchCreateRequest(b"small%d" % number) for number in range(WATCHES)]
            _watch(arena, streams, small).throw_away()
        for _ in range(arena.count(20, 5)):
            puts = [RequestOp(request_put=PutRequest(b"small%d" % number)) for number in range(128)]
            kv.insist(arena, TxnRequest((), tuple(puts)))
        arena.wait_for_commits(arena.count(500, 50))


def _watch(arena: Arena, streams: ExitStack, watches: Sequence[WatchCreateRequest]) -> Hostile:
    requests = [*map(WatchRequest, watches), WatchRequest(progress_request=WatchProgressRequest())]
    body = b"".join(map(dumps, requests))
    stream = arena.connect(KV, seconds=ANSWER_S)
    streams.callback(stream.close)
    stream.send_bytes(b"POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return stream
