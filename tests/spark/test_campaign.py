"""Campaigns over Spark: the outcomes of runs without it, also by the command, killed and begun again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from harness.waiting import wait_until
from kraft_trio.cli import run
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.chunks import chunks_of, run_chunk
from kraft_trio.simulation.campaign.seed_run import SeedRuns
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.spark.campaigns.run import retrying, run_chunks
from kraft_trio.spark.campaigns.task import ChunkTask
from tests.spark.conftest import SCRUBBED
from tests.spark.on_two_workers import SHORT_LIVED, untimed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = ("--time", "1s", "--nodes", "3", "--observers", "0", "--faults", "network")
RUNS = SeedRuns(PlanOptions(voters=3, observers=0, duration_us=1_000_000, profiles=("network",)))
ALLOWED_SECONDS = 300


def test_the_outcomes_are_those_of_runs_without_spark(spark: SparkSession) -> None:
    here = [untimed(outcome) for outcome in run_chunk((0, 1, 2, 3), RUNS.run, limit_s=RUNS.limit_s, attempt=0)]
    there = [untimed(outcome) for outcome in run_chunks(spark, chunks_of(range(4), 1), ChunkTask(RUNS))]
    assert sorted(there, key=lambda outcome: outcome.seed) == here
    assert all(outcome.digest and outcome.transitions for outcome in here)


def test_who_stops_listening_cancels_the_rest(spark: SparkSession) -> None:
    outcomes = run_chunks(spark, chunks_of(range(1000), 1), ChunkTask(RUNS))
    next(outcomes)
    outcomes.close()
    tracker = spark.sparkContext.statusTracker()  # which hears of a job's end a moment after the job's owner
    wait_until("no job is left", lambda: not tracker.getActiveJobsIds())


def test_the_command_resumes_after_a_kill_and_ends_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` is asked for as it finds a Java."""
    out = tmp_path / "spark"
    first = start("0:1000", out, tmp_path)
    try:
        wait_until("some seeds have results", lambda: len(results(out)) >= 3, ALLOWED_SECONDS)
        first.kill()
        first.wait()
    finally:
        # What it has begun, too.
        with suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    kept = {path: path.stat().st_mtime_ns for path in results(out)}
    seeds = f"0:{max(seed_of(path) for path in kept) + 4}"
    second = start(seeds, out, tmp_path)
    printed, complaints = second.communicate(timeout=ALLOWED_SECONDS)
    assert second.returncode == 0, complaints[-3000:]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was there is not run again"
    pool = tmp_path / "pool"
    assert run(["simulate", "--seeds", seeds, "--jobs", "2", "--out", str(pool), *OPTIONS]) == 0
    assert table(out) == table(pool)
    # The first line has the time that it took.
    assert printed.splitlines()[1:] == (pool / "summary.txt").read_text().splitlines()[1:]
    other = [line for line in complaints.splitlines() if not line.startswith("simulating: ")]
    assert other == [], "nobody has asked for what Spark says of itself"


def start(seeds: str, out: Path, scratch: Path) -> subprocess.Popen[str]:
    """The command, one seed a task, in a group of processes of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    environment |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
    }
    command = ["simulate", "--seeds", seeds, *OPTIONS, "--out", str(out), "--spark", "--master", "local[2]"]
    return subprocess.Popen(
        [sys.executable, "-m", "kraft_trio", *command, "--chunk", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def results(out: Path) -> list[Path]:
    return sorted(out.glob("results/seeds-*.parquet"))


def seed_of(path: Path) -> int:
    return int(path.stem.removeprefix("seeds-"))


def table(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "results").drop_columns(["real_s"]).sort_by("seed").to_pylist()
    return rows


@pytest.mark.parametrize(
    ("master", "made"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3, 2]", "local[3,2]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_begins_tasks_anew(master: str, made: str) -> None:
    assert retrying(master) == made


def test_a_master_that_begins_nothing_anew_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--master local\[2,1\]: a seed that ends its process would end all"):
        retrying("local[2,1]")
