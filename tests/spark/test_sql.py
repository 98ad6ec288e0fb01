"""The source as users of Spark SQL meet it: tables, column names in any case, filters, and a directory as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Observation
from pyspark.sql.functions import expr

from kraft_trio.spark.table_properties import options_of
from tests.spark.directories import PARTITION, make_kafkas, make_node, numbered
from tests.spark.documents import program
from tests.spark.test_latest_by_key import write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_PATH = "dirs/"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SECONDS = 300


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path / "nodes", 1, (0, numbered(0, 50)))


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """The name of a table that is dropped after the test."""
    yield "logs_of_nodes"
    spark.sql("drop table if exists logs_of_nodes")


@pytest.mark.parametrize("heading", ["In SQL", "State as of an offset"])
def test_what_the_document_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], heading: str
) -> None:
    shown = program(heading)
    assert SHOWN_PATH in shown.text
    if heading == "In SQL":
        make_kafkas(tmp_path, "dynamic")
    else:
        write_log(
            tmp_path, list(zip(b"c a b a c b a".split(), [b"0", b"0", b"2", b"1", None, b"3", b"4"], strict=True))
        )
        (tmp_path / "node1").rename(tmp_path / "node-1")
    spark.catalog.dropTempView("log")  # As a stream into memory has left it, which another document shows.
    exec(compile(shown.text.replace(SHOWN_PATH, f"{tmp_path}/"), shown.document.name, "exec"), {})
    assert capsys.readouterr().out.strip() == shown.output.strip()
    spark.catalog.dropTempView("log")


@pytest.mark.parametrize(
    "definition",
    [
        "{table} using kraft options (path '{path}', content 'batches')",
        "{table} using kraft comment 'logs' location '{path}'",
        "{table} (offset bigint) using kraft options (path '{path}')",
    ],
)
def test_a_table_is_created_and_read_with_its_path(
    spark: SparkSession, node: Path, table: str, definition: str
) -> None:
    spark.sql(f"create table {definition.format(table=table, path=node)}")
    with pytest.raises(
        PySparkException,
        match=r"no path: .*CREATE TEMPORARY VIEW name USING kraft OPTIONS \(path '…'\), or .*WITH \(path='…'\)",
    ):
        spark.sql(f"select * from {table}").collect()
    content = "batches" if "batches" in definition else "records"
    [row] = spark.sql(f"select count(*) n from {table} with (path='{node}', content='{content}')").collect()
    assert row.n == (5 if content == "batches" else 50)


def test_a_table_of_a_live_quorum_names_what_is_not_handed_over(spark: SparkSession, table: str) -> None:
    spark.sql(f"create table {table} (value string) using kraft options (bootstrapControllers '127.0.0.1:9')")
    with pytest.raises(
        PySparkException, match=r"bootstrapControllers is missing: .* WITH \(bootstrapControllers='…'\)"
    ):
        spark.sql(f"insert into {table} values ('a')")
    with pytest.raises(PySparkException, match="quorum not reached within 100 ms"):
        spark.sql(f"insert into {table} with (bootstrapControllers='127.0.0.1:9', timeoutMs='100') values ('a')")


def test_a_temporary_view_keeps_its_options(spark: SparkSession, node: Path) -> None:
    spark.sql(f"create or replace temporary view log_of_node using kraft options (path '{node}', startingOffsets '45')")
    assert spark.table("log_of_node").count() == 5
    spark.catalog.dropTempView("log_of_node")


def test_only_what_create_table_adds_is_ignored() -> None:
    added = {"owner": "me", "provider": "kraft", "location": "file:/data", "comment": "logs", "option.mode": "FAILFAST"}
    given = {**added, "path": "file:/data", "mode": "FAILFAST", "k": "v"}
    assert options_of("kraft", given) == {"path": "/data", "mode": "FAILFAST", "k": "v"}
    assert options_of("kraft", {"owner": "me", "path": "file:/data"}) == {"owner": "me", "path": "file:/data"}
    remote = {"provider": "KRAFT", "path": "file:///data", "Owner": "me"}
    assert options_of("kraft", remote) == {"path": "file:///data"}


@pytest.mark.parametrize("schema", [None, "offset bigint"])
def test_a_directory_is_no_stream(spark: SparkSession, node: Path, schema: str | None) -> None:
    reader = spark.readStream.format("kraft")
    reader = reader if schema is None else reader.schema(schema)
    query = reader.load(str(node)).writeStream.format("noop").start()
    with pytest.raises(
        StreamingQueryException,
        match=rf"load\({node}\): a directory is no stream; expected load\(\) and the option boot",
    ) as failed:
        query.awaitTermination(SECONDS)
    assert "UnboundLocalError" not in str(failed.value)


def test_column_names_are_as_case_insensitive_as_sparks(spark: SparkSession, node: Path) -> None:
    frame = spark.read.format("kraft").schema("OFFSET bigint, Value binary").load(str(node))
    assert frame.columns == ["OFFSET", "Value"]
    assert [tuple(row) for row in frame.where("offset >= 48").collect()] == [(48, b"48"), (49, b"49")]


@pytest.mark.parametrize("allowed", [True, False])
def test_filters_are_pushed_whenever_spark_allows(spark: SparkSession, tmp_path: Path, allowed: bool) -> None:
    """What they rule out would end the query."""
    node = make_node(tmp_path, 1, (50, numbered(50, 100)))
    (node / PARTITION / f"{0:020d}.log").symlink_to("nowhere")
    reader = spark.read.format("kraft").schema("OFFSET bigint").option("mode", "FAILFAST")
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, str(allowed).lower())
    try:
        frame = reader.load(str(node)).where("offset >= 97")
        if allowed:
            assert sorted(row.OFFSET for row in frame.collect()) == [97, 98, 99]
            frame = reader.option("pushFilters", False).load(str(node)).where("offset >= 97")
        with pytest.raises(PySparkException, match="cannot be read: No such file or directory"):
            frame.collect()
    finally:
        spark.conf.set(PUSHDOWN, str(before))


def test_a_glob_passes_over_foreign_files(spark: SparkSession, node: Path) -> None:
    """Within a node's folder, and next to it."""
    (node.parent / "notes.txt").write_text("of an operator")
    (node.parent / "lost+found").mkdir()
    for glob in (f"{node}/*", f"{node.parent}/*"):
        rows = spark.read.format("kraft").load(glob).select("directory", "error").distinct().collect()
        assert [(Path(row.directory).relative_to(node.parent).parts[0], row.error) for row in rows] == [("node1", None)]
    (node.parent / "node2").mkdir()
    [row] = spark.read.format("kraft").load(f"{node.parent}/*").where("error is not null").collect()
    assert re.search(r"node2: is empty", row.error), "an empty directory may be a replica that has lost its data"
    with pytest.raises(PySparkException, match="no replica's directory among the paths: nothing but files"):
        spark.read.format("kraft").load(f"{node.parent}/*.txt").collect()


def test_damage_is_counted_while_a_query_runs(spark: SparkSession, node: Path) -> None:
    """Without another query."""
    [file] = (node / PARTITION).glob("*.log")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    counted = Observation("log")
    frame = spark.read.format("kraft").load(str(node))
    frame = frame.observe(counted, expr("count_if(NOT crc_ok) AS wrong"), expr("count_if(error IS NOT NULL) AS errors"))
    assert frame.count() == 41
    assert counted.get == {"wrong": 1, "errors": 1}


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"startingOffsets": '{"offset": 47}'}, [47, 48, 49]),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": "Earliest", "endingOffsets": '{"offset": 2}'}, [0, 1]),
    ],
)
def test_places_are_written_alike_for_live_and_stored(
    spark: SparkSession, node: Path, places: dict[str, str], expected: list[int]
) -> None:
    frame = spark.read.format("kraft").options(**places).load(str(node))
    assert sorted(row.offset for row in frame.select("offset").collect()) == expected
