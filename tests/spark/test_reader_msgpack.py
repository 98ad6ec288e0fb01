"""Values as columns, by the reader that Spark calls."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgpack
import pytest
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType

from kraft_trio.errors import StorageError
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import KRaftVersion
from tests.spark.directories import batches, make_node
from tests.spark.loading import fields, load

MSGPACK = {"value.format": "msgpack"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = [
        msgpack.packb({"name": f"n{at}", "number": at, "offset": "theirs", **({"late": 1.5} if at > 2 else {})})
        for at in range(5)
    ]
    return make_node(tmp_path, 1, (0, batches(0, [values])))


@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_control_record_values_never_reach_the_application(tmp_path: Path, mode: str) -> None:
    control = encode_control_batch([KRaftVersion(1)], timestamp_ms=5, leader_epoch=1)
    path = make_node(tmp_path, 1, (0, control + batches(1, [[msgpack.packb({"name": "a"})]])))
    schema = fields(offset=LongType(), control=BooleanType(), name=StringType(), error=StringType())
    assert load(path, schema, mode=mode, **MSGPACK) == [
        {"offset": 0, "control": True, "name": None, "error": None},
        {"offset": 1, "control": False, "name": "a", "error": None},
    ]
    [of_quorum, of_application] = load(path, mode=mode, **MSGPACK)
    assert (of_quorum["control_type"], of_quorum["value"], of_quorum["name"]) == ("KRaftVersion", b"\0\0\0\1\0", None)
    assert of_application["name"] == "a"


@pytest.mark.parametrize(
    "values",
    [
        [1, "x"],
        ["x", 1],
        [True, 1],
        [b"x", "y"],
        [[1, "x"]],
        [[1], ["x"]],
        [{"a": 1}, {"a": "x"}],
        [datetime(2020, 1, 1, tzinfo=UTC), 5],
        [msgpack.ExtType(5, b"x")],
        [None, msgpack.ExtType(5, b"")],
        [2**63],
    ],
)
def test_a_name_whose_values_have_no_common_type_is_left_out(tmp_path: Path, values: list[object]) -> None:
    packed = [msgpack.packb({"odd": value, "name": "a"}, datetime=True) for value in values]
    path = make_node(tmp_path, 1, (0, batches(0, [packed])))
    rows = load(path, **MSGPACK)
    assert list(rows[0])[-3:] == ["size", "name", "error"]
    assert [(row["name"], row["error"]) for row in rows] == [("a", None)] * len(values)


def test_numbers_of_two_kinds_have_a_common_type(tmp_path: Path) -> None:
    packed = [msgpack.packb({"number": value}) for value in (1, 1.5, None)]
    rows = load(make_node(tmp_path, 1, (0, batches(0, [packed]))), **MSGPACK)
    assert [(row["number"], row["error"]) for row in rows] == [(1.0, None), (1.5, None), (None, None)]


def test_columns_of_the_schema_that_is_given(path: Path) -> None:
    schema = fields(offset=LongType(), name=StringType(), absent=IntegerType(), error=StringType())
    assert load(path, schema, **MSGPACK) == [
        {"offset": at, "name": f"n{at}", "absent": None, "error": None} for at in range(5)
    ]


def test_columns_that_the_values_have(path: Path) -> None:
    rows = load(path, **MSGPACK)
    assert list(rows[0])[-4:] == ["name", "number", "late", "error"]
    assert [(row["offset"], row["number"], row["late"]) for row in rows] == [
        (at, at, 1.5 if at > 2 else None) for at in range(5)
    ]


def test_names_that_differ_by_case_alone_are_one_column(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, batches(0, [[msgpack.packb({"Name": "a", "name": 1, "EPOCH": 2})]])))
    assert list(load(path, **MSGPACK)[0])[-3:] == ["size", "Name", "error"]


def test_a_value_that_is_none_is_named(tmp_path: Path) -> None:
    values = [msgpack.packb({"name": "a"}), b"\xc1", msgpack.packb({"name": 5})]
    path = make_node(tmp_path, 1, (0, batches(0, [values])))
    first, second, third = load(path, fields(name=StringType(), error=StringType()), **MSGPACK)
    assert first == {"name": "a", "error": None}
    assert (second["name"], third["name"]) == (None, None)
    assert "is not MessagePack" in second["error"]
    assert "column name: 5" in third["error"]
    with pytest.raises(StorageError, match=r"position 0: value: .* is not MessagePack"):
        load(path, fields(name=StringType()), mode="FAILFAST", **MSGPACK)


def test_an_entry_may_have_the_name_of_a_column_that_nobody_asks_for(tmp_path: Path) -> None:
    path = make_node(tmp_path, 1, (0, batches(0, [[msgpack.packb({"topic": "theirs", "partition": 7})]])))
    [row] = load(path, **{"value.format": "msgpack"})
    assert (row["topic"], row["partition"]) == ("theirs", 7)
    [row] = load(path, includeKafkaColumns="true", **{"value.format": "msgpack"})
    assert (row["topic"], row["partition"]) == ("__cluster_metadata", 0)
