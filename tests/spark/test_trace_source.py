"""`format("kraft-trace")`: every event is a row; what cannot be read is a row that says so, or an error."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest
from pyspark.errors import PySparkException

from kraft_trio.cli import run
from kraft_trio.simulation.campaign.seed_run import TraceTo, run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader, TraceWriter, open_trace
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short runs, the last one as lines of JSON."""
    directory = tmp_path_factory.mktemp("traces")
    for seed in (1, 2, 3):
        path = str(directory / f"{seed}.trace")
        run_seed(seed, PlanOptions(duration_us=2_000_000), TraceTo(path, f"seed {seed}", ndjson=seed == 3))
    return directory


def events_of(path: Path) -> list[TraceEvent]:
    with open_trace(path) as (_, events):
        return list(events)


def as_event(row: Row) -> TraceEvent:
    fields = row.asDict()
    assert fields.pop("error") is None
    for name in ("file", "run", "seed"):
        del fields[name]
    voters = fields.pop("voters")
    details = json.loads(fields.pop("details"))
    return TraceEvent(**fields, voters=None if voters is None else tuple(voters), details=details)


def test_every_event_is_a_row(spark: SparkSession, traces: Path) -> None:
    rows = spark.read.format("kraft-trace").load(f"{traces}/*.trace").orderBy("file", "sequence").collect()
    files = sorted(traces.iterdir())
    assert [as_event(row) for row in rows] == [event for file in files for event in events_of(file)]
    assert {(row.file, row.run, row.seed) for row in rows} == {
        (str(file), str(file), seed) for seed, file in enumerate(files, 1)
    }


def test_a_directory_is_the_files_in_it(spark: SparkSession, traces: Path) -> None:
    every = spark.read.format("kraft-trace").load(str(traces))
    assert every.select("file").distinct().count() == 3
    assert every.count() == sum(len(events_of(file)) for file in traces.iterdir())


def test_a_torn_end_is_a_row(spark: SparkSession, traces: Path, tmp_path: Path) -> None:
    whole = events_of(traces / "1.trace")
    (tmp_path / "torn.trace").write_bytes((traces / "1.trace").read_bytes()[:-1])
    rows = spark.read.format("kraft-trace").load(str(tmp_path)).collect()
    assert [row.sequence for row in rows] == [*(event.sequence for event in whole[:-1]), None]
    assert rows[-1].error.startswith(f"record {len(whole) + 1} at byte ")
    assert rows[-1].error.endswith(": cut short; expected a whole msgpack map")
    with pytest.raises(PySparkException, match=rf"torn\.trace: record {len(whole) + 1} at byte \d+: cut short"):
        spark.read.format("kraft-trace").option("mode", "failfast").load(str(tmp_path)).collect()


def test_what_is_no_trace_is_a_row_beside_the_others(spark: SparkSession, traces: Path, tmp_path: Path) -> None:
    (tmp_path / "good.trace").write_bytes((traces / "1.trace").read_bytes())
    (tmp_path / "empty.trace").write_bytes(b"")
    (tmp_path / "other.trace").write_bytes(b"\x89PNG")
    (tmp_path / "_hidden").write_bytes(b"x")
    (tmp_path / "directory").mkdir()
    missing = str(tmp_path / "missing")
    table = spark.read.format("kraft-trace").load([str(tmp_path), str(tmp_path / "directory"), missing])
    problems = {Path(row.file).name: row.error for row in table.where("error is not null").collect()}
    assert problems == {
        "empty.trace": "record 1 at byte 0: not a trace; it is empty",
        "other.trace": "record 1 at byte 0: not a trace; no msgpack: int is not allowed for map key when "
        "strict_map_key=True",
        "directory": "a directory without files; expected traces in it",
        "missing": "cannot be read: No such file or directory",
    }
    assert table.where("error is null").count() == len(events_of(traces / "1.trace"))
    for name in ("empty.trace", "missing"):
        with pytest.raises(PySparkException, match=rf"{name}: "):
            spark.read.format("kraft-trace").option("mode", "FAILFAST").load(str(tmp_path / name)).collect()


def test_a_damaged_record_costs_itself(spark: SparkSession, traces: Path, tmp_path: Path) -> None:
    """A JSON line may contain anything; a msgpack record must still be one value."""
    lines = (traces / "3.trace").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:-9] + b"\n"
    lines[5] = b'{"sequence": "five"}\n'
    (tmp_path / "lines").write_bytes(b"".join(lines))
    rows = spark.read.format("kraft-trace").load(str(tmp_path / "lines")).collect()
    assert len(rows) == len(lines) - 1
    bad = {number: row.error for number, row in enumerate(rows, 1) if row.error}
    assert set(bad) == {3, 5}
    assert bad[3].startswith(f"record 4 at byte {sum(map(len, lines[:3]))}: no JSON: ")
    assert bad[5].startswith(f"record 6 at byte {sum(map(len, lines[:5]))}: ")
    assert "required field missing @ $.kind" in bad[5]
    header, *records = msgpack.Unpacker((traces / "1.trace").open("rb"))
    foreign = [header, *records[:3], {**records[3], "log_end": 2**70}, [1, 2], *records[4:]]
    (tmp_path / "packed").write_bytes(b"".join(map(msgpack.packb, [*foreign[:4], *foreign[5:]])))
    rows = spark.read.format("kraft-trace").load(str(tmp_path / "packed")).collect()
    assert [row.error is None for row in rows] == [True] * 3 + [False] + [True] * (len(records) - 4)


def test_only_the_columns_that_are_asked_for(spark: SparkSession, traces: Path) -> None:
    asked = spark.read.format("kraft-trace").schema("Voters array<int>, kind string").load(str(traces / "1.trace"))
    assert [tuple(row) for row in asked.collect()] == [
        (None if event.voters is None else list(event.voters), event.kind) for event in events_of(traces / "1.trace")
    ]
    for schema, expected in (
        ("sequence int", "column sequence int, expected sequence bigint"),
        ("colour string", "column colour string, expected one of file, run, seed, "),
    ):
        with pytest.raises(PySparkException, match=expected):
            spark.read.format("kraft-trace").schema(schema).load(str(traces)).collect()


@pytest.mark.parametrize(
    ("options", "path", "expected"),
    [
        ({"mod": "FAILFAST"}, "traces", "option mod=FAILFAST: there is no such option; known are"),
        ({"mode": "DROPMALFORMED"}, "traces", "option mode=DROPMALFORMED, expected PERMISSIVE or FAILFAST"),
        ({"maxPartitionBytes": "0"}, "traces", "option maxPartitionBytes=0, expected a whole number of bytes"),
        ({}, "none", "no trace among the paths: .*none: cannot be read: No such file or directory"),
        ({}, "none/*.trace", r"no trace among the paths: .*none/\*\.trace: nothing has such a name"),
    ],
)
def test_bad_options_and_paths_are_named(
    spark: SparkSession, traces: Path, options: dict[str, str], path: str, expected: str
) -> None:
    path = str(traces if path == "traces" else traces / path)
    with pytest.raises(PySparkException, match=expected):
        spark.read.format("kraft-trace").options(**options).load(path).collect()


def test_small_files_are_read_together_and_large_ones_alone(spark: SparkSession, traces: Path) -> None:
    table = spark.read.format("kraft-trace")
    assert table.load(str(traces)).rdd.getNumPartitions() == 1
    assert table.option("maxPartitionBytes", 1).load(str(traces)).rdd.getNumPartitions() == 3
    sizes = [file.stat().st_size for file in sorted(traces.iterdir())]
    assert table.option("maxPartitionBytes", sum(sizes[:2])).load(str(traces)).rdd.getNumPartitions() == 2


def test_the_trace_of_a_node_is_of_its_cluster(spark: SparkSession, tmp_path: Path) -> None:
    for node in (1, 2):
        header = TraceHeader(cluster_id="fMCL8kv1SWm87L_Md-I2hg", node=node, directory_id="AAAAAAAAAAAAAAAAAAAAAQ")
        with TraceWriter(tmp_path / f"{node}.trace", header) as writer:
            writer.write(TraceEvent(0, 1, node, "sync", None, None, None, None, None, None, None, "", {}))
    rows = spark.read.format("kraft-trace").load(str(tmp_path)).orderBy("node").collect()
    assert [(row.run, row.seed, row.node) for row in rows] == [
        ("fMCL8kv1SWm87L_Md-I2hg", None, 1),
        ("fMCL8kv1SWm87L_Md-I2hg", None, 2),
    ]


def test_a_url_is_read_through_fsspec(spark: SparkSession, traces: Path) -> None:
    pytest.importorskip("fsspec")
    table = spark.read.format("kraft-trace").load(f"local://{traces}/*.trace")
    assert table.where("error is null").count() == sum(len(events_of(file)) for file in traces.iterdir())


def test_what_the_document_shows_runs_and_prints_such_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (REPOSITORY / "docs" / "how-to" / "query-with-spark.md").read_text().partition("\n## Traces\n")[2]
    shown = re.search(
        r"^```\n(?P<command>kraft .*?)\n```\n\n```python\n(?P<program>.*?)^```\n\n```\n(?P<output>.*?)^```$",
        section,
        re.MULTILINE | re.DOTALL,
    )
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(shown["command"])[1:]) == 0
    capsys.readouterr()
    # `session` gives the one that is there, begun in another directory.
    assert shown["program"].count('"*.trace"') == 1
    program = shown["program"].replace("*.trace", f"{tmp_path}/*.trace")
    exec(compile(program, "program", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    expected = shown["output"].splitlines()
    assert [word.strip() for word in printed[1].split("|")] == [word.strip() for word in expected[1].split("|")]
    assert len(printed) > 4, "there are rows"
