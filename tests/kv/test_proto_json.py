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
    FilterType,
    LeaseGrantRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    SortOrder,
    SortTarget,
    TxnRequest,
    WatchCreateRequest,
    WatchRequest,
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
    ("written", "expected"),
    [
        ("7", 7),
        ('"7"', 7),
        ("-0", 0),
        ("1e2", 100),
        ('"3.0"', 3),
        ("100e-2", 1),
        ("9007199254740993.0", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        *[(wrong, None) for wrong in ("1.5", "9223372036854775808", "1e400", "1e-400", "true", "[]", "{}", "NaN")],
        *[(wrong, None) for wrong in ("+5", "05", "0x5", "1e99999999999999999999", "5.", ".5", "1_0", "Infinity")],
        *[(f'"{wrong}"', None) for wrong in ("1_0", "+5", " 5", "5 ", "05", "", "-", "1e", "0x5", "NaN", "\u0665")],
    ],
)
def test_numbers_are_those_of_json(written: str, expected: int | None) -> None:
    text = f'{{"limit":{written}}}'
    if expected is None:
        with pytest.raises(KvError, match=r"limit|no JSON"):
            parse(RangeRequest, text)
    else:
        assert parse(RangeRequest, text) == RangeRequest(limit=expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", b""),
        ("YWI=", b"ab"),
        ("YWI", b"ab"),
        ("YQ", b"a"),
        ("YR==", b"a"),
        ("_-8=", b"\xff\xef"),
        ("_-8", b"\xff\xef"),
        ("YWJj\n\r\n\rYWJj", b"abcabc"),
        ("YWJj\r\nYWJj", b"abcabc"),
        ("YWJj\nYWJj", b"abcabc"),
        *[(wrong, None) for wrong in ("Y", "YWI==", "YQ=", "Y=Q=", "=", "YW I=", "YW.I", "+-8=", "YWJjY", "Y\u00e4==")],
        ("YWJj\nYQ==", None),  # its length is no multiple of four, so it has no padding
    ],
)
def test_base64_is_read_as_go_reads_it(written: str, expected: bytes | None) -> None:
    text = json.dumps({"key": written})
    if expected is None:
        with pytest.raises(KvError, match="base64"):
            parse(RangeRequest, text)
    else:
        assert parse(RangeRequest, text) == RangeRequest(expected)


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (RangeRequest, '{"key": "YQ==", "key": "YQ=="}'),
        (RangeRequest, '{"range_end": "YQ==", "rangeEnd": "YQ=="}'),
        (RangeRequest, '{"key": null, "key": "YQ=="}'),
        (RequestOp, '{"request_put": {}, "request_range": {}}'),
        (Compare, '{"version": "0", "value": "YQ=="}'),
        (WatchRequest, '{"create_request": {}, "progress_request": {}}'),
        (TxnRequest, '{"success": [null]}'),
        (TxnRequest, '{"success": {}}'),
        (WatchCreateRequest, '{"filters": "NOPUT"}'),
        (WatchCreateRequest, '{"filters": [7]}'),
        (RangeRequest, '{"unknown": NaN}'),
        (RangeRequest, '{"unknown": [-Infinity]}'),
        (RangeRequest, '{"unknown": "\\ud800"}'),
        (RangeRequest, '{"key": 5}'),
        (RangeRequest, '{"sort_order": true}'),
        (RangeRequest, '{"serializable": "true"}'),
    ],
)
def test_what_protobuf_does_not_allow_is_refused(cls: type[Any], text: str) -> None:
    with pytest.raises(KvError):
        parse(cls, text)


@pytest.mark.parametrize(
    ("cls", "text", "expected"),
    [
        (RangeRequest, '{"unknown": 1, "unknown": 2, "x": 1e999}', RangeRequest()),
        (RangeRequest, '{"unknown": "\\ud83d\\ude00"}', RangeRequest()),
        (RangeRequest, '{"sort_order": "UP", "sort_target": "NEW"}', RangeRequest()),
        (RangeRequest, '{"sort_order": 2.0}', RangeRequest(sort_order=SortOrder.DESCEND)),
        (RequestOp, '{"request_put": null, "request_range": {}}', RequestOp(RangeRequest())),
        (WatchCreateRequest, '{"filters": ["NOPUT", "NEW", 1]}', WatchCreateRequest(filters=tuple(FilterType))),
    ],
)
def test_what_means_nothing_is_left_out(cls: type[Any], text: str, expected: object) -> None:
    assert parse(cls, text) == expected


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
