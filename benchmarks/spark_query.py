"""Queries of Spark over directories, compared with Spark's own connector to Apache Kafka."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from benchmarks import kafka_broker
from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

PROGRAM = (sys.executable, "-m", "benchmarks.loads.spark_query")
ALLOWED_SECONDS = 600.0
CORES = (1, 2)
AIM_SCALING = 1.7
PARTITIONS = 4
"""Of the topic: as many as the connector has tasks."""
TOPIC = "records"


@attrs.frozen
class Queried:
    """What one kind of query gave."""

    label: str
    row_bytes: float
    """Of the files, a row."""
    runs: Mapping[int, dict[str, Any]]
    """What the program has said, by the number of cores."""

    def rows_per_s(self, cores: int) -> float:
        run = self.runs[cores]
        return float(run["rows"] / statistics.median(run["seconds"]))

    @property
    def scaling(self) -> float:
        return self.rows_per_s(2) / self.rows_per_s(1)

    @property
    def cells(self) -> tuple[str, ...]:
        speeds = [self.rows_per_s(cores) for cores in CORES]
        numbers = [text for speed in speeds for text in (f"{speed:,.0f}", f"{speed * self.row_bytes / 2**20:,.0f}")]
        return (self.label, *numbers, f"{self.scaling:.2f}")


def copies(directory: Path, parent: Path, count: int) -> str:
    """A glob of so many nodes that all have the files of that directory; they take no room."""
    for number in range(count):
        for path in directory.glob("*/*"):
            linked = parent / f"node{number}" / path.relative_to(directory)
            linked.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, linked)
    return f"{parent}/node*"


async def query(label: str, row_bytes: float, arguments: tuple[str, ...], rounds: int) -> Queried:
    runs = {}
    for cores in CORES:
        command = [*PROGRAM, *arguments, "--cores", str(cores), "--rounds", str(rounds)]
        runs[cores] = json.loads((await run_to_end(command, ALLOWED_SECONDS)).splitlines()[-1])
    return Queried(label, row_bytes, runs)


async def query_kafka(directory: Path, batches: int, records_a_batch: int, row_bytes: float, rounds: int) -> Queried:
    """The connector over a topic with the records of so many batches."""
    async with kafka_broker.running_broker(directory) as bootstrap:
        sizes = ("--batches", str(batches), "--records-a-batch", str(records_a_batch), "--partitions", str(PARTITIONS))
        written = json.loads(await run_to_end([*PROGRAM, "produce", bootstrap, TOPIC, *sizes], ALLOWED_SECONDS))
        jars = ",".join(map(str, kafka_broker.connector_jars()))
        found = await query(
            "records: Spark's own Kafka connector", row_bytes, ("kafka", bootstrap, TOPIC, "--jars", jars), rounds
        )
    if found.runs[1]["rows"] != written["rows"]:
        raise ValueError(f"{found.runs[1]['rows']} rows of {written['rows']} records")
    return found


def section_of(ours: list[Queried], kafka: Queried | None, notes: list[str]) -> Section:
    queried = [*ours, *([] if kafka is None else [kafka])]
    aims = [
        Aim(
            f"{found.label}, 1 → 2 cores: at least {AIM_SCALING} times",
            f"{found.scaling:.2f}",
            found.scaling >= AIM_SCALING,
        )
        for found in ours
    ]
    if kafka is not None:
        ratios = " and ".join(f"{ours[-1].rows_per_s(cores) / kafka.rows_per_s(cores):.2f}" for cores in CORES)
        notes = [*notes, f"records: {ratios} times as many rows a second as the connector, on one core and on two."]
    return Section(
        name="spark-query",
        title="Queries of Spark over directories, from end to end",
        method=(
            "The query writes every column of every row to the sink `noop`. The session runs already, its code is "
            "compiled, and the files are in the system's cache. The JVM and Python's workers share one processor, or "
            "two (affinity). "
            "Median of the rounds. Bytes are those of our files. The connector reads the same records, uncompressed "
            "batches of as many, from a broker of one node, which may use both processors."
        ),
        columns=("what", "1 core: rows a second", "MiB a second", "2 cores: rows a second", "MiB a second", "1 → 2"),
        rows=tuple(found.cells for found in queried),
        aims=tuple(aims),
        notes=tuple(notes),
        data={found.label: {str(cores): run for cores, run in found.runs.items()} for found in queried},
    )


async def measure_queries(context: Context, directories: Mapping[str, tuple[Path, float, int, int]]) -> Section:
    """`directories` are, by content, one node's directory, the bytes of a row, its batches, and the records of each."""
    rounds = context.pick(5, 3)
    ours: list[Queried] = []
    for content, (directory, row_bytes, _, _) in directories.items():
        path = copies(directory, directory.with_name(f"{content}-copies"), context.pick(8, 3))
        label = f"{content}: by our source"
        ours.append(await query(label, row_bytes, ("read", path, "--content", content), rounds))
        context.say(f"{label}: {ours[-1].rows_per_s(1):,.0f} and {ours[-1].rows_per_s(2):,.0f} rows a second")
    missing = kafka_broker.why_unavailable()
    if missing is not None:
        return section_of(ours, None, [f"Spark's own Kafka connector is not compared: {missing}."])
    _, row_bytes, batches, records_a_batch = directories["records"]
    with context.fresh_directory("spark-query-kafka") as directory:
        try:
            kafka = await query_kafka(directory, batches, records_a_batch, row_bytes, rounds)
        except BenchmarkError as error:
            return section_of(ours, None, [f"Spark's own Kafka connector could not be measured: {error}"])
    context.say(f"{kafka.label}: {kafka.rows_per_s(1):,.0f} and {kafka.rows_per_s(2):,.0f} rows a second")
    return section_of(ours, kafka, [f"Spark {ours[0].runs[1]['spark']}; {kafka_broker.versions()}."])
