"""What one JSON message may cost: its items are counted before they are decoded, and large answers come in chunks."""

from __future__ import annotations

from collections import Counter

import pytest

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.kv import KvError, proto_json
from kraft_trio.kv.gateway import request_stream
from kraft_trio.kv.gateway.request_stream import messages_of
from kraft_trio.kv.proto_json import CHUNK_CHARACTERS, MAX_ITEMS, dump_chunks, dumps, parse, parse_first
from kraft_trio.kv.requests import PutRequest, TxnRequest, WatchRequest
from kraft_trio.kv.responses import (
    DeleteRangeResponse,
    KeyValue,
    LeaseTimeToLiveResponse,
    PutResponse,
    RangeResponse,
    ResponseHeader,
    ResponseOp,
    TxnResponse,
)
from tests.kv.gateways import FakeExchange


@pytest.mark.parametrize(
    "text",
    [
        '{"compare":[' + "{}," * MAX_ITEMS + "{}]}",
        '{"unknown":[' + "1," * MAX_ITEMS + "1]}",
        "[" * (MAX_ITEMS + 1),
        "{" + '"key":"",' * MAX_ITEMS + '"key":""}',
    ],
    ids=["objects", "numbers", "arrays", "fields"],
)
def test_too_many_items_are_refused_before_they_are_decoded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_json, "decode_first", None)
    with pytest.raises(KvError, match="request is too large"):
        parse(TxnRequest, text)


def test_a_large_value_is_no_large_number_of_items() -> None:
    put = PutRequest(b"k", bytes(1_000_000))
    text = dumps(put).decode()
    assert parse(PutRequest, text) == put
    assert parse_first(PutRequest, text * 2) == (put, text)


async def test_a_stream_refuses_many_items_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_stream, "parse_first", None)
    text = '{"create_request":{"filters":[' + "0," * MAX_ITEMS + "0]}}"
    exchange = FakeExchange("POST", "/v3/watch", {}, [text.encode()])
    with pytest.raises(KvError, match="request is too large"):
        await anext(messages_of(WatchRequest, exchange))


async def test_many_messages_at_once_are_handled_in_turns() -> None:
    turns = LoopTurns.of_this_run()
    exchange = FakeExchange("POST", "/v3/watch", {}, [dumps(WatchRequest()) * 100])
    numbers = [turns.number async for _ in messages_of(WatchRequest, exchange)]
    assert len(numbers) == 100
    assert max(Counter(numbers).values()) <= request_stream.MESSAGES_PER_TURN


def test_chunks_are_the_message_in_parts() -> None:
    kvs = tuple(KeyValue(b"%d" % number, value=bytes(1000)) for number in range(500))
    ranges = RangeResponse(ResponseHeader(revision=3), kvs, more=True, count=700)
    for message in (
        ranges,
        TxnResponse(ResponseHeader(), True, (ResponseOp(response_range=ranges), ResponseOp())),
        DeleteRangeResponse(None, 500, kvs),
        LeaseTimeToLiveResponse(None, 1, keys=tuple(kv.value for kv in kvs)),
    ):
        chunks = list(dump_chunks(message))
        assert b"".join(chunks) == dumps(message)
        assert max(map(len, chunks)) < CHUNK_CHARACTERS + 2000
        assert len(chunks) > 4
    for small in (RangeResponse(), PutResponse(), TxnResponse(responses=(ResponseOp(),)), PutRequest(b"k")):
        assert list(dump_chunks(small)) == [dumps(small)]
