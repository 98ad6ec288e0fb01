"""The key-value store of this repository behind the commands of a history's lines."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import attrs

from kraft_trio import Committed, NewRecord, Record
from kraft_trio.kv import KvMachine
from kraft_trio.kv.range_reads import read_range
from kraft_trio.kv.requests import (
    Compare,
    CompareTarget,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import DeleteRangeResponse, PutResponse, RangeResponse, TxnResponse

KEYS: Final = ("a", "b", "c")
ALL: Final = ("range", "a", "z")
"""Reads every key."""

Request = PutRequest | DeleteRangeRequest | TxnRequest | RangeRequest
Response = PutResponse | DeleteRangeResponse | TxnResponse | RangeResponse


def random_write(source: random.Random, value: str, seen: Sequence[str | None]) -> list[Any]:
    """A put, a delete, or a transaction that expects one of the values `seen` (None for a key that is not there)."""
    key = source.choice(KEYS)
    kind = source.choices(("put", "delete", "txn"), (4, 1, 3))[0]
    if kind == "put":
        return ["put", key, value]
    return ["delete", key] if kind == "delete" else ["txn", key, source.choice((None, *seen)), value]


def random_read(source: random.Random) -> list[Any]:
    """Of one key or of all."""
    return ["range", source.choice(KEYS), None] if source.random() < 0.5 else [*ALL]


def request_of(command: Sequence[Any]) -> Request:
    """What a client of the store sends."""
    verb, name, *arguments = command
    key = name.encode()
    match verb:
        case "put":
            return PutRequest(key, arguments[0].encode(), prev_kv=True)
        case "delete":
            return DeleteRangeRequest(key, prev_kv=True)
        case "range":
            return RangeRequest(key, (arguments[0] or "").encode())
    expected, value = arguments
    if expected is None:
        compare = Compare(key=key, target=CompareTarget.VERSION, version=0)
    else:
        compare = Compare(key=key, target=CompareTarget.VALUE, value=expected.encode())
    put = RequestOp(request_put=PutRequest(key, value.encode()))
    return TxnRequest((compare,), (put,), (RequestOp(request_range=RangeRequest(key)),))


def result_of(response: Response) -> list[Any]:
    """What the client is told, as in a history."""
    assert response.header is not None
    told: Any
    match response:
        case PutResponse(prev_kv=before):
            told = None if before is None else before.value.decode()
        case DeleteRangeResponse(prev_kvs=gone):
            told = gone[0].value.decode() if gone else None
        case TxnResponse(succeeded=succeeded):
            told = succeeded
        case RangeResponse(kvs=kvs):
            told = [[kv.key.decode(), kv.value.decode()] for kv in kvs]
    return [response.header.revision, told]


class SimulatedStore:
    """`kraft simulate --state-machine scripts.linearizability.store:SimulatedStore` tests the store."""

    def __init__(self) -> None:
        self._machine = KvMachine()
        self._commands = 0
        """How many commands it has made for clients."""

    def apply(self, record: Committed[bytes]) -> list[Any]:
        request: Any = request_of(json.loads(record.value))
        response: Any = self._machine.apply(attrs.evolve(record, value=request))
        return result_of(response)

    def random_command(self, source: random.Random) -> bytes:
        """The next command of a client of a simulation.  Each value is written once."""
        self._commands += 1
        seen = [str(number) for number in range(max(1, self._commands - 6), self._commands)]
        return json.dumps(random_write(source, str(self._commands), seen)).encode()

    def random_query(self, source: random.Random) -> list[Any]:
        """The next query of a client of a simulation."""
        return random_read(source)

    def answer(self, query: list[Any]) -> list[Any]:
        """The keys that the query asks for, with their values."""
        request = request_of(query)
        assert isinstance(request, RangeRequest)
        return result_of(read_range(self._machine.store, request))

    def save(self) -> Iterable[NewRecord]:
        return self._machine.save()

    async def load(self, records: AsyncIterator[Record]) -> None:
        await self._machine.load(records)
