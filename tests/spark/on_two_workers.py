"""What must come out the same wherever it runs; and the program that runs it on two workers.

`python -m tests.spark.on_two_workers NODES OUT [TRACES]` begins a cluster of two workers, each a process with one core,
and prints as JSON what came out; campaigns keep their results in OUT.  With TRACES there is `more`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from pyspark import cloudpickle

from kraft_trio.simulation.campaign.chunks import chunks_of
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import SeedRuns
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.spark import session
from kraft_trio.spark.audit import audit
from kraft_trio.spark.campaigns.files import CampaignDirectory
from kraft_trio.spark.campaigns.run import run_chunks
from kraft_trio.spark.campaigns.task import ChunkTask
from tests.simulation import bad_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local-cluster[2,1,1024]"
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that works for seconds: most of them would be its own compiler's."""

RUNS: Final = SeedRuns(PlanOptions(voters=3, duration_us=1_000_000))
BAD_SEEDS: Final = range(12)

CHECKS: Final = ("log_checksums", "log_matching", "log_one_leader_per_epoch", "log_snapshots_are_equal")
"""Of the audit: they read different tables, and one of them finds something."""

SMALL_PARTS: Final = 2048
"""Bytes that a task reads: so that there are several."""

Results = dict[str, list[str]]


def tables(spark: SparkSession, nodes: str) -> Results:
    """Tables of directories of replicas, which `nodes` leads to, each as sorted text."""
    return {
        "batches": rows(spark, "kraft", nodes, content="batches", maxPartitionBytes=SMALL_PARTS),
        "records": rows(spark, "kraft", nodes, maxPartitionBytes=SMALL_PARTS),
    }


def more(spark: SparkSession, nodes: str, traces: str) -> Results:
    """Traces as a table, an audit, and a campaign of the simulator's own runs, each as sorted text."""
    found = audit(spark, directories=[nodes], checks=CHECKS)
    outcomes = run_chunks(spark, chunks_of(range(3), 1), ChunkTask(RUNS))
    return {
        "events": rows(spark, "kraft-trace", traces, maxPartitionBytes=SMALL_PARTS),
        "results of the audit": sorted(map(repr, found.results)),
        "violations": sorted(map(repr, found.violations)),
        "outcomes": sorted(str(untimed(outcome)) for outcome in outcomes),
    }


def rows(spark: SparkSession, source: str, path: str, **options: str | int) -> list[str]:
    return sorted(str(row) for row in spark.read.format(source).options(**options).load(path).collect())


def untimed(outcome: Outcome) -> Outcome:
    """Without what differs from one run to the next: how long it took."""
    return attrs.evolve(outcome, real_s=0.0)


def bad_campaign(spark: SparkSession, out: Path) -> Results:
    """Seeds each of which is bad in its own way, two a task, among good ones: seed and rule of each."""
    # Executors know kraft_trio, and no tests.
    cloudpickle.register_pickle_by_value(bad_runs)
    directory = CampaignDirectory(out)
    directory.begin({})
    outcomes = list(run_chunks(spark, chunks_of(BAD_SEEDS, 2), ChunkTask(bad_runs.BadRuns(), directory)))
    directory.check_is_shared(BAD_SEEDS)
    return {
        "bad seeds": sorted(f"{o.seed} {o.failure.rule if o.failure is not None else 'ok'}" for o in outcomes),
    }


def workers(spark: SparkSession) -> Results:
    """The processes that tasks run in: one a worker, which all its tasks are children of."""
    found = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.getppid()).distinct().collect()
    return {"workers": sorted(map(str, found))}


def main(nodes: str, out: str, traces: str | None = None) -> None:
    """Begin the cluster, run all of it, and end the cluster."""
    spark = session(
        MASTER,
        "two workers",
        {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.memory": "768m",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.log.level": "ERROR",
            # The first task begins when both are there.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{out}/warehouse",
        },
    )
    try:
        found = workers(spark) | tables(spark, nodes) | bad_campaign(spark, Path(out, "bad"))
        if traces is not None:
            found |= more(spark, nodes, traces)
        print(json.dumps(found))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
