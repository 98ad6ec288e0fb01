"""Ten thousand watches, and transactions and deletions that concern all of them."""

from __future__ import annotations

from contextlib import ExitStack

from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import (
    DeleteRangeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
    WatchCreateRequest,
    WatchRequest,
)
from scripts.attacks import kv
from scripts.attacks.arena import Arena
from scripts.attacks.quorum import KV

SETTINGS = kv.SETTINGS
STREAMS = 10
WATCHES = 1000
"""Of a stream."""


def play(arena: Arena) -> None:
    """Half of them watch a key, and half a range that has only this key."""
    places = arena.count(STREAMS, 2) * WATCHES
    kv.fill(arena, places, lease=0)
    with ExitStack() as streams:
        for start in range(0, places, WATCHES):
            _watch(arena, streams, range(start, start + WATCHES))
        puts = [RequestOp(request_put=PutRequest(_key(number))) for number in range(0, places, 20)][:900]
        nested = tuple(
            RequestOp(request_txn=TxnRequest((), tuple(puts[start : start + 90]))) for start in range(0, len(puts), 90)
        )
        for _ in range(3):
            kv.ask_gateway(arena, TxnRequest((), nested))
            kv.produce(arena, [TxnRequest((), nested)])
        kv.produce(arena, [DeleteRangeRequest(kv.START, kv.END)])
        kv.check_alike(arena)
        arena.wait_for_commits(50)
    kv.clear(arena)


def _key(number: int) -> bytes:
    return kv.START + b"%07d" % number


def _watch(arena: Arena, streams: ExitStack, numbers: range) -> None:
    """A stream with a watch of each key, whose events are read and thrown away."""
    connection = streams.enter_context(arena.connect(KV, seconds=60))
    connection.send_bytes(b"POST /v3/watch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(numbers), 100):
        requests = b"".join(dumps(WatchRequest(_create(number))) for number in numbers[start : start + 100])
        connection.send_bytes(b"%x\r\n%b\r\n" % (len(requests), requests))
    connection.throw_away()


def _create(number: int) -> WatchCreateRequest:
    key = _key(number)
    return WatchCreateRequest(key, b"" if number % 2 else key + b"\1", prev_kv=True)
