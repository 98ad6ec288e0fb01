"""MessagePack values as columns: what fits is there, what does not is null and told."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import attrs
import msgpack
import pyarrow as pa
import pytest

from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.spark.decoding.msgpack_values import msgpack_columns

NAME = b"\x81\xa1n"
"""Begins a map whose only key is n."""
DEEP = b"\x91" * 1000 + b"\x90"
"""A list in a list, 1,000 times."""


def columns(values: list[Any], *fields: tuple[str, pa.DataType]) -> tuple[list[list[Any]], dict[int, str]]:
    """`values` are packed, but for bytes, which are as they are, and None."""
    packed = [value if isinstance(value, bytes | None) else msgpack.packb(value, datetime=True) for value in values]
    made, problems = msgpack_columns(pa.array(packed, pa.binary()), [pa.field(*field) for field in fields])
    assert [array.type for array in made] == [type for _, type in fields]
    return [array.to_pylist(maps_as_pydicts="strict") for array in made], dict(problems)


def test_entries_by_name() -> None:
    at = datetime(2026, 5, 6, 7, 8, 9, 123456, UTC)
    values = [{"n": 1, "name": "a", "at": at, "more": [1]}, {"n": None}, None, {}]
    found, problems = columns(values, ("name", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC")))
    assert found == [["a", None, None, None], [1, None, None, None], [at, None, None, None]]
    assert problems == {}


def test_nested_types() -> None:
    value = {"tags": {"a": 1, "b": 2}, "points": [{"x": 0.5}, {"x": 1, "y": 9}], "maps": [{1: b"z"}]}
    found, problems = columns(
        [value],
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("points", pa.list_(pa.struct({"x": pa.float64()}))),
        ("maps", pa.list_(pa.map_(pa.int8(), pa.binary()))),
    )
    assert found == [[{"a": 1, "b": 2}], [[{"x": 0.5}, {"x": 1.0}]], [[{1: b"z"}]]]
    assert problems == {}


def test_the_whole_value() -> None:
    found, problems = columns([{"n": 7}, {"n": 8}], ("value", pa.struct({"n": pa.int16()})), ("n", pa.int64()))
    assert found == [[{"n": 7}, {"n": 8}], [7, 8]]
    assert problems == {}
    assert columns([3, None], ("value", pa.int64())) == ([[3, None]], {})


@attrs.define
class Transfer:
    payer: str
    amount: int


def test_classes_of_an_application() -> None:
    values = [MsgpackSerde(Transfer).encode(Transfer("a", 5)), msgpack.packb({"amount": 6})]
    fields = ("value_tag", pa.string()), ("value_version", pa.int32()), ("amount", pa.int64())
    assert columns(values, *fields) == ([["Transfer", None], [1, None], [5, 6]], {})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"\xc1", r"value: b'\xc1' is not MessagePack"),
        (b"", "value: b'' is not MessagePack"),
        (b"\x01\x02", r"value: b'\x01\x02' is not MessagePack"),
        (b"\x81\x90\x01", r"value: b'\x81\x90\x01' has no place in Python: "),
        ({"n": msgpack.Timestamp(10**15)}, "value: b'"),
        # Since Python 3.12, such a list has a representation.
        (NAME + DEEP, ("value: column n: list of very many in each other, expected int64", "value: column n: [[[[")),
        (NAME + b"\x91" * 1100, "value: b'"),
        ([1, 2], "value: [1, 2], expected a map, or [tag, version, map]"),
        ({"n": "one"}, "value: column n: 'one', expected int64"),
        ({"n": 1.5}, "value: column n: 1.5, expected int64"),
        ({"n": True}, "value: column n: True, expected int64"),
        ({"n": 2**63}, "value: column n: 9223372036854775808, expected int64"),
        ({"n": ["x" * 100]}, "value: column n: ['" + "x" * 58 + "…, expected int64"),
    ],
)
def test_what_does_not_fit_is_null_beside_what_does(value: Any, problem: str | tuple[str, ...]) -> None:
    (found,), problems = columns([{"n": 1}, value, {"n": 3}], ("n", pa.int64()))
    assert found == [1, None, 3]
    assert problems.keys() == {1}
    assert problems[1].startswith(problem)


def test_nothing_is_made_of_a_number_but_a_number() -> None:
    fields = (("b", pa.bool_()), ("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC")), ("s", pa.string()))
    found, problems = columns([{"b": 1, "x": True, "at": 5, "s": 6}, {"b": True, "x": 2, "s": "t"}], *fields)
    assert found == [[None, True], [None, 2.0], [None, None], [None, "t"]]
    assert problems == {0: "value: column b: 1, expected bool"}


@pytest.mark.parametrize(
    ("type", "value", "found"),
    [
        (pa.string(), b"bytes", None),
        (pa.binary(), "text", None),
        (pa.binary(), b"bytes", b"bytes"),
        (pa.date32(), 5, None),
        (pa.date32(), datetime(2026, 5, 6, tzinfo=UTC), None),
        (pa.decimal128(5, 2), 7, Decimal(7)),
        (pa.decimal128(5, 2), 1.5, None),
        (pa.map_(pa.string(), pa.int64()), {b"a": 1}, None),
    ],
    ids=str,
)
def test_nothing_is_converted_but_whole_numbers(type: pa.DataType, value: Any, found: Any) -> None:
    assert columns([{"n": value}], ("n", type))[0] == [[found]]
