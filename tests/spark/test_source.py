"""`spark.read.format("kraft")` in a session: what Spark itself has a part in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.spark.directories import PARTITION, make_kafkas, make_node, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_glob_is_one_table(spark: SparkSession, tmp_path: Path) -> None:
    for node in (1, 2, 3):
        make_node(tmp_path, node, (0, numbered(0, 100)))
    frame = spark.read.format("kraft").load(f"{tmp_path}/*/")
    found = frame.groupBy("node").agg({"offset": "max", "*": "count"}).orderBy("node").collect()
    assert [tuple(row) for row in found] == [(node, 99, 100) for node in (1, 2, 3)]


@pytest.mark.parametrize(
    "content", ["records", "batches", "control", "snapshots", "snapshot-records", "quorum-state", "epochs"]
)
def test_every_content_of_kafkas_directories(spark: SparkSession, tmp_path: Path, content: str) -> None:
    """Spark takes the columns for what the reader says they are."""
    paths = [str(make_kafkas(tmp_path, name)) for name in ("dynamic", "static")]
    rows = spark.read.format("kraft").option("content", content).load(paths).collect()
    assert {row["directory"] for row in rows} == set(paths)
    assert {row["error"] for row in rows} == {None}


def test_a_schema_options_and_filters_that_are_pushed(spark: SparkSession, tmp_path: Path) -> None:
    """What they rule out would end the query."""
    path = make_node(tmp_path, 1, (50, numbered(50, 100)))
    (path / PARTITION / f"{0:020d}.log").symlink_to("nowhere")
    reader = spark.read.format("kraft").schema("value binary, offset bigint").options(mode="FAILFAST", pushFilters=True)
    frame = reader.load(str(path)).where("offset >= 97").orderBy("offset")
    assert [tuple(row) for row in frame.collect()] == [(b"97", 97), (b"98", 98), (b"99", 99)]
    with pytest.raises(PySparkException, match="cannot be read: No such file or directory"):
        reader.load(str(path)).collect()


def test_an_option_that_is_wrong_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="option contents=batches: there is no such option"):
        spark.read.format("kraft").option("contents", "batches").load(str(tmp_path))
