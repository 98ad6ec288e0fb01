"""Values of applications and of Kafka's controllers in records, and the key-value store's commands and JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import attrs
import msgpack

from kraft_trio.application.request_records import load_requests, request_records
from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.errors import CorruptSnapshotError, ProtocolError, SerdeError
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.errors import KvError
from kraft_trio.kv.gateway.request_stream import messages_of
from kraft_trio.kv.proto_json import dumps, parse
from kraft_trio.kv.requests import (
    Compare,
    LeaseGrantRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
    WatchRequest,
)
from kraft_trio.protocol.request_table import AppliedRequest, RequestTable
from kraft_trio.storage.batches.batch import NewRecord, Record
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from scripts.fuzzing.decoder import MSGPACK_AT_LEAST, Decoder
from scripts.fuzzing.streams import Given, run


@attrs.frozen
class Order:
    """A value as an application may have it."""

    number: int
    customer: str
    lines: tuple[tuple[str, float], ...] = ()
    notes: dict[str, bytes] = attrs.field(factory=dict)
    previous: Order | None = None


SERDE = MsgpackSerde(Order)
PUT = PutRequest(b"key", b"value", lease=5)
TXN = TxnRequest((Compare(key=b"key"),), (RequestOp(request_put=PUT), RequestOp(request_txn=TxnRequest())))
COMMANDS = (PUT, TXN, LeaseGrantRequest(10, 1))
JSON_CLASSES = (RangeRequest, PutRequest, TxnRequest, WatchRequest, LeaseGrantRequest)


def orders() -> list[bytes]:
    first = Order(1, "name", (("x", 1.5),), {"a": b"\xff"})
    return [SERDE.encode(first), SERDE.encode(Order(2, "other", previous=first))]


class Parts:
    """As much of an exchange as is needed to read a body: it comes in parts of one byte, seven bytes, and so on."""

    def __init__(self, data: bytes) -> None:
        self._parts = Given(data, (1, 7, 500))

    async def next_part(self) -> bytes:
        return await self._parts.receive_some()


async def read_stream(cls: type[Any], data: bytes) -> None:
    async for message in messages_of(cls, Parts(data)):  # type: ignore[arg-type]
        dumps(message)


def read_json(data: bytes) -> None:
    """As the body of one request and as messages of a stream, of several kinds."""
    text = data.decode(errors="replace")
    refusal: KvError | None = None
    for cls in JSON_CLASSES:
        readers: tuple[Callable[[], object], ...] = (
            lambda cls=cls: dumps(parse(cls, text)),
            lambda cls=cls: run(read_stream(cls, data)),
        )
        for read in readers:
            try:
                read()
            except KvError as error:
                refusal = error
    if refusal is not None:
        raise refusal


def json_texts() -> list[bytes]:
    watch = b'{"create_request":{"key":"YQ==","start_revision":"5","filters":["NOPUT",1]}}'
    lease = b'{"TTL":"10","ID":18446744073709551615}'
    return [dumps(PUT), dumps(TXN), dumps(PUT) * 3, watch, lease, b'{"key":"YQ","limit":-1,"sortOrder":"DESCEND"}']


def tables() -> list[bytes]:
    """The records of a snapshot's table of requests, in one msgpack array."""
    table = RequestTable([AppliedRequest(UUID(int=number), 5, b"outcome") for number in (1, 2)], 1)
    packed: bytes = msgpack.packb([_parts(record) for record in request_records(table, [b"own"])])
    return [packed]


def _parts(record: NewRecord | bytes) -> list[Any]:
    if isinstance(record, bytes):
        return [record, None]
    return [record.value, record.headers[0] if record.headers else None]


def read_table(data: bytes) -> None:
    unpacker = msgpack.Unpacker(raw=True)
    unpacker.feed(data)
    try:
        found = unpacker.unpack()
    except (ValueError, msgpack.UnpackException):
        return
    values = [part for part in found if isinstance(part, list) and len(part) == 2] if isinstance(found, list) else []

    async def records() -> AsyncIterator[Record]:
        for offset, (value, header) in enumerate(values):
            headers = ()
            if isinstance(header, list) and len(header) == 2 and all(isinstance(part, bytes) for part in header):
                headers = ((header[0].decode(errors="replace"), header[1]),)
            yield Record(offset, 0, None, value if isinstance(value, bytes) else None, headers)

    run(load_requests(records()))


METADATA_RECORDS = (
    "0102000" + "76f726465727300000000000000000000000000000005" + "00",
    "011700" + "01" + "00" + "05" + "74657874",
    "010502" + "00000003" + "00" * 16 + "02" + "00" + "06" + "0200000001" + "05" + "01" + "01",
)
"""A topic, the begin of a transaction with its name, and the change of a partition."""

DECODERS = (
    Decoder("metadata-records", lambda: [*map(bytes.fromhex, METADATA_RECORDS)],
            lambda data: decode_metadata_frame(data).fields(), (ProtocolError,), memory_per_byte=2000),
    Decoder("msgpack-values", orders, SERDE.decode, (SerdeError,), memory_per_byte=2000,
            memory_at_least=MSGPACK_AT_LEAST),
    Decoder("kv-commands", lambda: [*map(CommandSerde().encode, COMMANDS)], CommandSerde().decode, (SerdeError,),
            memory_per_byte=2000, memory_at_least=MSGPACK_AT_LEAST),
    Decoder("kv-json", json_texts, read_json, (KvError,), memory_per_byte=4000),
    Decoder("request-tables", tables, read_table, (CorruptSnapshotError,), memory_per_byte=2000,
            memory_at_least=MSGPACK_AT_LEAST),
)  # fmt: skip
