"""A streaming query over a live quorum: rows per second from the first offset to the end, at full speed."""

from __future__ import annotations

import json
import statistics
import sys

from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import ProducerResult
from benchmarks.report import Section

PROGRAM = (sys.executable, "-m", "benchmarks.loads.spark_stream")
ALLOWED_SECONDS = 600.0
VALUE_BYTES = 100
WAYS = {
    "spark": "Spark, two tasks at a time, to the sink noop",
    "reader": "the same reader without Spark, one process",
    "consumer": "librdkafka's consumer in a Python loop",
}


async def measure(context: Context) -> Section:
    records = context.pick(5_000_000, 1_000_000)
    rounds = context.pick(5, 3)
    runs: dict[str, list[dict[str, float]]] = {}
    with context.fresh_directory("spark-stream") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            await _produce(cluster, records)
            nodes = [part for pid in cluster.pids.values() for part in ("--node", str(pid))]
            for way, label in WAYS.items():
                command = [*PROGRAM, way, cluster.bootstrap_servers, "--rounds", str(rounds), *nodes]
                lines = await run_to_end(command, ALLOWED_SECONDS)
                runs[way] = [json.loads(line) for line in lines.splitlines()]
                read = sum(run["rows"] for run in runs[way])
                if read < records * rounds:
                    raise BenchmarkError(f"{label}: {read:.0f} rows of {rounds} times {records} records")
                context.say(f"{label}: {_per_second(runs[way]):,.0f} rows a second")
    return Section(
        name="spark-stream",
        title="A stream of a live quorum",
        method=(
            f"{records:,} records with values of {VALUE_BYTES} bytes, in batches as librdkafka makes them, in a quorum "
            "of three. AvailableNow from the first offset, all columns, CRCs checked, an empty checkpoint each "
            f"time; from the start of the query to its end, after a first query that is not counted. Medians of "
            f"{rounds} rounds; the nodes and what reads share the processors."
        ),
        columns=("what", "rows a second", "MiB of values a second", "rows a core-second", "nodes' CPU s a round"),
        rows=tuple(
            (
                label,
                f"{_per_second(runs[way]):,.0f}",
                f"{_per_second(runs[way]) * VALUE_BYTES / 2**20:,.0f}",
                f"{statistics.median(run['rows'] / run['cpu_s'] for run in runs[way]):,.0f}",
                f"{statistics.median(run['nodes_cpu_s'] for run in runs[way]):.1f}",
            )
            for way, label in WAYS.items()
        ),
        notes=("Core-seconds are those of the reading side: with Spark, of Python's workers and the JVM.",),
        data=runs,
    )


def _per_second(runs: list[dict[str, float]]) -> float:
    return statistics.median(run["rows"] / run["seconds"] for run in runs)


async def _produce(cluster: KraftCluster, records: int) -> None:
    command = [sys.executable, "-m", "benchmarks.loads.producer", cluster.bootstrap_servers, "--records", str(records)]
    output = await run_to_end([*command, "--value-bytes", str(VALUE_BYTES)], ALLOWED_SECONDS)
    if ProducerResult.from_json(output).records != records:
        raise BenchmarkError(f"not all of {records} records were acknowledged: {output}")
    await cluster.all_caught_up()
