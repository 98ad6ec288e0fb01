"""Filters that are pushed: less is read, and nothing that would pass is missing."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import msgpack
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.spark.directories.filters import FilteringReader
from kraft_trio.spark.directories.partitions import checked_options, columns_of
from kraft_trio.spark.schemas import arrow_schema
from kraft_trio.storage.batches.batch import encode_control_batch, patch_base_offset_and_epoch
from kraft_trio.storage.batches.control_records import KRaftVersion
from tests.spark.directories import batches, make_node, numbered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    control = bytearray(encode_control_batch([KRaftVersion(1)], timestamp_ms=5))
    patch_base_offset_and_epoch(control, 0, 50, 2)
    make_node(tmp_path, 1, (0, numbered(0, 50)), (50, bytes(control) + numbered(51, 100, epoch=2)))
    make_node(tmp_path, 2, (0, numbered(0, 50)))
    return tmp_path


def read(path: Path, content: str, *filters: Filter, **options: str) -> list[dict[str, Any]]:
    given = {"path": f"{path}/*", "content": content, **options}
    reader = FilteringReader(given, from_arrow_schema(arrow_schema(columns_of(checked_options(given)))))
    left = reader.pushFilters([*filters])
    assert all(any(one is filter for filter in filters) for one in left)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("node",), 1), GreaterThanOrEqual(("offset",), 95)], range(95, 100)),
        ([EqualTo(("node",), 1), GreaterThan(("offset",), 95), LessThan(("offset",), 98)], range(96, 98)),
        ([EqualTo(("node",), 2), LessThanOrEqual(("offset",), 3)], range(4)),
        ([EqualTo(("offset",), 77)], range(77, 78)),
        ([EqualTo(("epoch",), 2)], range(50, 100)),
        ([In(("node",), (1, 5)), LessThan(("epoch",), 2)], range(50)),
        ([EqualTo(("node",), 5)], range(0)),
        ([EqualTo(("control",), True)], range(50, 51)),
        ([EqualTo(("control",), False), EqualTo(("node",), 2)], range(50)),
        ([Not(EqualTo(("node",), 1)), In(("node",), (2,))], range(50)),
        ([EqualTo(("cluster_id",), "another")], range(0)),
    ],
)
def test_records(path: Path, filters: list[Filter], expected: range) -> None:
    assert [row["offset"] for row in read(path, "records", *filters)] == list(expected)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThanOrEqual(("base_offset",), 81)], [81, 91]),
        ([GreaterThan(("last_offset",), 80), LessThanOrEqual(("base_offset",), 81)], [81]),
        ([EqualTo(("node",), 2), LessThan(("last_offset",), 20)], [0, 10]),
        ([EqualTo(("control",), True)], [50]),
    ],
)
def test_batches(path: Path, filters: list[Filter], expected: list[int]) -> None:
    assert [row["base_offset"] for row in read(path, "batches", *filters)] == expected


def at(timestamp_ms: float, zone: tzinfo = UTC) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, zone)


HERE = timezone(timedelta(hours=5))


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    """Ten batches of one time each, from 1,000,000 ms to 1,000,090 ms."""
    make_node(tmp_path, 1, (0, numbered(0, 100)))
    return tmp_path


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThanOrEqual(("timestamp",), at(1_000_080))], range(80, 100)),
        ([GreaterThan(("timestamp",), at(1_000_080, HERE))], range(90, 100)),
        ([GreaterThan(("timestamp",), at(1_000_080.5))], range(90, 100)),
        ([LessThan(("timestamp",), at(1_000_020.5))], range(30)),
        ([LessThanOrEqual(("timestamp",), at(1_000_019))], range(20)),
        ([EqualTo(("timestamp",), at(1_000_050))], range(50, 60)),
        ([GreaterThan(("timestamp",), at(1_000_020)), LessThan(("timestamp",), at(1_000_039))], range(30, 40)),
        ([GreaterThan(("timestamp",), at(2_000_000))], range(0)),
    ],
)
def test_times(timed: Path, filters: list[Filter], expected: range) -> None:
    assert [row["offset"] for row in read(timed, "records", *filters)] == list(expected)


@pytest.mark.parametrize(("filter", "count"), [(GreaterThan, 0), (LessThanOrEqual, 1)])
def test_times_of_control_records(path: Path, filter: type[GreaterThan], count: int) -> None:
    assert len(read(path, "control", filter(("timestamp",), at(6)))) == count


def test_latest_times_of_batches(timed: Path) -> None:
    found = read(timed, "batches", GreaterThanOrEqual(("max_timestamp",), at(1_000_080)))
    assert [row["base_offset"] for row in found] == [80, 90]
    found = read(timed, "batches", LessThan(("max_timestamp",), at(1_000_020)))
    assert [row["base_offset"] for row in found] == [0, 10]


def test_an_epoch_of_other_contents(path: Path) -> None:
    (path / "node1" / "__cluster_metadata-0" / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 50\n")
    assert [row["epoch"] for row in read(path, "epochs", EqualTo(("epoch",), 2))] == [2]


def test_control_is_no_filter_of_a_content_without_such_a_column(path: Path) -> None:
    assert len(read(path, "control", EqualTo(("control",), True))) == 1


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (GreaterThan(("last_offset",), 1003), range(4, 20)),
        (EqualTo(("base_offset",), -4), range(4, 5)),
        (LessThan(("base_offset",), -5), range(6, 20)),
        (EqualTo(("half",), 5.5), range(20)),
        (EqualTo(("last_offset",), "a"), range(20)),
        (GreaterThanOrEqual(("last_offset",), "a"), range(20)),
    ],
)
def test_what_values_have_under_a_name_is_none_of_the_logs(tmp_path: Path, filter: Filter, expected: range) -> None:
    """Such a filter is for what the values say.  Spark applies what the reader does not."""
    values = [[msgpack.packb({"last_offset": 1000 + at, "base_offset": -at, "half": at / 2})] for at in range(20)]
    make_node(tmp_path, 1, (0, batches(0, values)))
    rows = read(tmp_path, "records", filter, **{"value.format": "msgpack"})
    assert [row["last_offset"] - 1000 for row in rows] == list(expected)


EXACT = [
    IsNotNull(("offset",)),
    GreaterThan(("offset",), 3),
    In(("epoch",), (1, 2)),
    EqualTo(("control",), False),
    EqualTo(("value",), b"7"),
    LessThan(("directory",), "~"),
    LessThanOrEqual(("timestamp",), at(2_000_000)),
]
OTHERS = [
    Not(EqualTo(("offset",), 3)),
    IsNull(("error",)),
    EqualTo(("epoch",), 2**31),
    In(("epoch",), (1, None)),
    LessThanOrEqual(("timestamp",), datetime(2030, 1, 1)),
    GreaterThan(("offset", "x"), 3),
    GreaterThan(("nothing",), 3),
    StringStartsWith(("directory",), "/"),
]


def test_spark_applies_what_the_reader_cannot(path: Path) -> None:
    given = {"path": f"{path}/*"}
    schema = from_arrow_schema(arrow_schema(columns_of(checked_options(given))))
    reader = FilteringReader(given, schema)
    assert list(reader.pushFilters([*EXACT, *OTHERS])) == OTHERS
    assert list(FilteringReader({**given, "pushFilters": "false"}, schema).pushFilters(EXACT)) == EXACT
    reader = FilteringReader(given, schema)
    assert list(reader.pushFilters(EXACT)) == []
    reader = pickle.loads(pickle.dumps(reader))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert [(row["node"], row["offset"]) for row in rows] == [(1, 7), (2, 7)]


def test_a_row_with_an_error_passes_no_filter_of_what_it_lacks(tmp_path: Path) -> None:
    make_node(tmp_path, 1, (0, numbered(0, 20) + b"torn"))
    assert [row["error"] is None for row in read(tmp_path, "records")] == [True] * 20 + [False]
    assert {row["error"] for row in read(tmp_path, "records", GreaterThan(("offset",), -1))} == {None}


@pytest.mark.parametrize(
    "filter",
    [
        EqualTo(("offset",), 5.5),
        LessThan(("offset",), 5.5),
        EqualTo(("offset",), True),
        EqualTo(("epoch",), "1"),
        EqualTo(("node",), "1"),
        In(("node",), (2, None)),
        EqualTo(("cluster_id",), 5),
        GreaterThan(("timestamp",), datetime(2030, 1, 1)),
        GreaterThan(("timestamp",), 2**62),
        LessThan(("timestamp",), "1970-01-01"),
        LessThan(("directory",), datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_value_of_another_type_rules_nothing_out(tmp_path: Path, filter: Filter) -> None:
    make_node(tmp_path, 1, (0, numbered(0, 20)))
    assert len(read(tmp_path, "records", filter)) == 20
