"""`spark.read.format("kraft")` in a session: what Spark itself has a part in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from tests.spark.directories import PARTITION, make_kafkas, make_node, numbered
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_PATH = "dirs/*/"


def test_what_the_document_shows(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = (REPOSITORY / "docs" / "how-to" / "query-with-spark.md").read_text().partition("\n## Read\n")[2]
    found = re.search(r"^```python\n(.*?)^```$.*?^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    program, output = found.groups()
    assert SHOWN_PATH in program
    make_kafkas(tmp_path, "dynamic")
    exec(compile(program.replace(SHOWN_PATH, f"{tmp_path}/*/"), "docs/how-to/query-with-spark.md", "exec"), {})
    assert capsys.readouterr().out.strip() == output.strip()


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


def test_explain_shows_the_filters_that_the_reader_applies(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbered records are of ten times, ten to a batch, and later than 1,000,000 ms by the batch's offset."""
    path = make_node(tmp_path, 1, (0, numbered(0, 100)))
    frame = spark.read.format("kraft").load(str(path))
    late = frame.where("timestamp > timestamp'1970-01-01T00:16:40.080Z' and offset <= 95 and error is null")
    late.explain("formatted")
    shown = capsys.readouterr().out
    [pushed] = re.findall(r"PushedFilters: \[(.*)\]", shown)
    assert "LessThanOrEqual(offset,95)" in pushed
    assert "GreaterThan(timestamp,1970-01-01" in pushed
    assert "IsNull" not in pushed
    assert [row.offset for row in late.orderBy("offset").collect()] == list(range(90, 96))


def test_an_option_that_is_wrong_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="option contents=batches: there is no such option"):
        spark.read.format("kraft").option("contents", "batches").load(str(tmp_path))


def test_bad_input_of_every_kind_is_named_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Missing, empty and unreadable directories and files, a file that is no log, damage in the middle of one."""
    data = bytearray(numbered(0, 50))
    damaged = len(numbered(0, 10))
    data[damaged + HEADER_BYTES + 3] ^= 1
    node = make_node(tmp_path, 1, (0, bytes(data)), (50, b"these are words and no batches\n"), (80, numbered(80, 90)))
    (node / PARTITION / f"{70:020d}.log").symlink_to("nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    paths = [str(node), *(f"{tmp_path}/{name}" for name in ("missing", "empty", "file", "gl*b"))]
    reader = spark.read.format("kraft").schema("directory string, position bigint, offset bigint, error string")
    rows = reader.load(paths).collect()
    assert sorted(row["offset"] for row in rows if row["error"] is None) == [*range(10), *range(20, 50), *range(80, 90)]
    found = {row["error"].removeprefix(f"{tmp_path}/"): row["position"] for row in rows if row["error"] is not None}
    expected = {
        "CRC is 0x": damaged,
        "magic 97, expected 2": 0,
        f"node1/{PARTITION}/{70:020d}.log: cannot be read: No such file or directory": None,
        "missing: cannot be read: No such file or directory": None,
        "empty: is empty; expected a node's metadata.log.dir or a partition's": None,
        "file: cannot be read: Not a directory": None,
        "gl*b: nothing matches": None,
    }
    assert len(found) == len(expected)
    for text, position in expected.items():
        assert [found[error] for error in found if error.startswith(text)] == [position]
    with pytest.raises(PySparkException, match=f"{0:020d}.log: position {damaged}: CRC is 0x"):
        reader.option("mode", "FAILFAST").load(paths).collect()


def test_clusters_are_not_mixed_by_accident(spark: SparkSession, tmp_path: Path) -> None:
    for node, cluster_id in ((1, "cluster-a"), (2, "cluster-b")):
        make_node(tmp_path, node, (0, numbered(0, 5)), cluster_id=cluster_id)
    reader = spark.read.format("kraft").schema("cluster_id string")
    with pytest.raises(
        PySparkException, match=r"directories of 2 clusters: cluster-a in .*node1, cluster-b in .*node2"
    ):
        reader.load(f"{tmp_path}/*").collect()
    rows = reader.option("allowMixedClusters", True).load(f"{tmp_path}/*").distinct().collect()
    assert sorted(row["cluster_id"] for row in rows) == ["cluster-a", "cluster-b"]
