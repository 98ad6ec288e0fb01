"""Sends answers: a large one in parts, so that it is never in memory as a whole, and others get their turns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from kraft_trio.http.exchange import Exchange
from kraft_trio.kv.budget import version_bytes
from kraft_trio.kv.gateway.read_turns import ReadTurns
from kraft_trio.kv.proto_json import CHUNK_CHARACTERS, dump_chunks, dumps
from kraft_trio.kv.responses import (
    DeleteRangeResponse,
    KeyValue,
    LeaseLeasesResponse,
    LeaseTimeToLiveResponse,
    PutResponse,
    RangeResponse,
    TxnResponse,
)

SMALL_BYTES: Final = 16 * 1024
"""An answer with less is encoded at once."""
_LOOKED_AT: Final = 512
_ID_BYTES: Final = 32
_POINTER_BYTES: Final = 8
_STATUS_BYTES: Final = 64


async def send_answer(exchange: Exchange, answer: object, turns: ReadTurns) -> None:
    """Send the answer to a request that was served.  Raises Disconnected."""
    if _size(answer) < SMALL_BYTES:
        await exchange.respond(200, dumps(answer))
        return
    exchange.hold(_held_bytes(answer))
    chunks = dump_chunks(answer)
    await turns.begin_part(size=CHUNK_CHARACTERS)
    chunk = next(chunks)
    while True:
        await turns.begin_part(size=CHUNK_CHARACTERS)
        following = next(chunks, None)
        if following is None:
            break
        await exchange.stream(chunk)
        chunk = following
    if exchange.has_begun:
        await exchange.stream(chunk)
        await exchange.end()
    else:
        await exchange.respond(200, chunk)


def _size(answer: object) -> int:
    """About how many bytes an answer has; of one that is large this tells only that."""
    if isinstance(answer, RangeResponse):
        return _size_of(answer.kvs)
    if isinstance(answer, DeleteRangeResponse):
        return _size_of(answer.prev_kvs)
    if isinstance(answer, PutResponse):
        return 0 if answer.prev_kv is None else version_bytes(answer.prev_kv)
    if isinstance(answer, LeaseTimeToLiveResponse):
        return sum(map(len, islice(answer.keys, _LOOKED_AT))) + len(answer.keys)
    if isinstance(answer, LeaseLeasesResponse):
        return _ID_BYTES * len(answer.leases)
    if isinstance(answer, TxnResponse):
        parts = [
            (one.response_range, one.response_put, one.response_delete_range, one.response_txn)
            for one in answer.responses
        ]
        return sum(_size(part) for some in parts for part in some)
    return 0


def _held_bytes(answer: object) -> int:
    """The memory of a list that may have any length.  What is in it belongs to the store."""
    if isinstance(answer, RangeResponse):
        return _POINTER_BYTES * len(answer.kvs)
    if isinstance(answer, LeaseTimeToLiveResponse):
        return _POINTER_BYTES * len(answer.keys)
    return _STATUS_BYTES * len(answer.leases) if isinstance(answer, LeaseLeasesResponse) else 0


def _size_of(kvs: Iterable[KeyValue]) -> int:
    return sum(version_bytes(kv) for kv in islice(kvs, _LOOKED_AT))
