"""Values as columns, by the reader that Spark calls."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType

from kraft_trio.errors import StorageError
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
