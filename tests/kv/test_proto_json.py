"""The JSON of etcd's gateway: what is read, what is refused, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.kv import KvError
from kraft_trio.kv.proto_json import ObjectEnds, dumps, parse, parse_first
from kraft_trio.kv.requests import (
    Compare,
    LeaseGrantRequest,
    PutRequest,
    RangeRequest,
    SortOrder,
    SortTarget,
    TxnRequest,
)
from kraft_trio.kv.responses import KeyValue, PutResponse, ResponseHeader
from tests.kv.test_machine_properties import RANGES, TXNS
from tests.support import sizes

DESCENDING = RangeRequest(sort_order=SortOrder.DESCEND, sort_target=SortTarget.MOD)
NAMES = st.sampled_from(["key", "range_end", "rangeEnd", "limit", "sort_order", "serializable", "success", "compare"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["YQ==", "YQ", "1", "KEY", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(RANGES | TXNS)
@settings(max_examples=sizes.examples(120), deadline=None)
def test_messages_are_read_as_they_were_written(message: Any) -> None:
    assert parse(type(message), dumps(message).decode()) == message


@given(VALUES, st.sampled_from([RangeRequest, TxnRequest]))
@settings(max_examples=sizes.examples(240), deadline=None)
def test_any_json_is_a_message_or_refused(value: Any, cls: type[Any]) -> None:
    try:
        message = parse(cls, json.dumps(value))
    except KvError:
        return
    assert parse(cls, dumps(message).decode()) == message


@pytest.mark.parametrize("text", ["[" * 100_000, '{"success":[{"request_txn":' * 5_000, '{"key":', "nonsense", "\0"])
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(KvError):
        parse(TxnRequest, text)


def test_deep_transactions_are_refused() -> None:
    text = '{"success":[{"request_txn":' * 200 + "{}" + "}]}" * 200
    with pytest.raises(KvError):
        parse(TxnRequest, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", RangeRequest()),
        ('{"key": "YQ==", "rangeEnd": "Yg=="}', RangeRequest(b"a", b"b")),
        ('{"limit": "7", "revision": 3}', RangeRequest(limit=7, revision=3)),
        (
            '{"limit": null, "sort_order": "DESCEND", "sortTarget": 3}',
            DESCENDING,
        ),
        ('{"other": [1], "keys_only": true} rest', RangeRequest(keys_only=True)),
    ],
)
def test_requests_may_be_written_in_several_ways(text: str, expected: RangeRequest) -> None:
    assert parse(RangeRequest, text) == expected


@pytest.mark.parametrize(
    "text", ['{"limit": "1.5"}', '{"limit": 9223372036854775808}', '{"limit": true}', '{"key": "YQ"}']
)
def test_values_of_the_wrong_kind_are_refused(text: str) -> None:
    with pytest.raises(KvError):
        parse(RangeRequest, text)


def test_defaults_are_left_out() -> None:
    kv = KeyValue(b"a", 2, 3, 1)
    assert json.loads(dumps(PutResponse(ResponseHeader(revision=4), kv))) == {
        "header": {"revision": "4"},
        "prev_kv": {"key": "YQ==", "create_revision": "2", "mod_revision": "3", "version": "1"},
    }
    assert dumps(PutResponse(ResponseHeader())) == b'{"header":{}}'
    assert dumps(LeaseGrantRequest(5, -1)) == b'{"TTL":"5","ID":"-1"}'


def test_messages_may_follow_one_another() -> None:
    assert parse_first(PutRequest, ' {"key":"YQ=="} {}') == (PutRequest(b"a"), "{}")
    assert parse_first(Compare, '{"version":"1"}{"ke') == (Compare(version=1), '{"ke')
    with pytest.raises(KvError, match="no JSON"):
        parse_first(Compare, '{"key":')


@given(st.lists(VALUES.filter(lambda value: isinstance(value, dict)), max_size=3), st.integers(1, 9))
def test_the_ends_of_objects_are_found_however_they_arrive(values: list[Any], size: int) -> None:
    text = " ".join(json.dumps({**value, "}": '}{\\"{'}) for value in values)
    ends = ObjectEnds()
    found = [ends.count(text[at : at + size]) for at in range(0, len(text), size)]
    assert sum(found) == len(values)
    assert not values or found[-1]
