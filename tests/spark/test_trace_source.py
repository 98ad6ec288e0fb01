"""`format("kraft-trace")`: every event of every file is a row; what cannot be read is a row that says so, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from kraft_trio.simulation.nemesis import PlanOptions
from kraft_trio.simulation.seed_run import TraceTo, run_seed
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import open_trace

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
