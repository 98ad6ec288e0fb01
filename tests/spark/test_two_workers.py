"""On two workers, processes of their own, everything comes out as on threads of one process.

Nightly: the cluster takes three JVMs. By default, threads and processes of one machine run the same code in
the tests of the sources, the audit and the campaigns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pyspark
import pytest

from kraft_trio.simulation.campaign.seed_run import TraceTo, run_seed
from tests.simulation.bad_runs import RULES
from tests.spark.audit.directories import write_directories
from tests.spark.conftest import SCRUBBED
from tests.spark.on_two_workers import BAD_SEEDS, RUNS, Results, more, tables
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.nightly

ALLOWED_SECONDS = 900
"""For a cluster that begins, works and ends on a machine that is busy."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of a quorum, one of them damaged, and the traces of two runs."""
    directory = tmp_path_factory.mktemp("inputs")
    for node in write_directories(directory / "nodes"):
        first, *_ = sorted(node.glob("__cluster_metadata-0/*.log"))
        if node.name == "node-3":
            content = bytearray(first.read_bytes())
            content[-5] ^= 1
            first.write_bytes(content)
    (directory / "traces").mkdir()
    for seed in (1, 2):
        run_seed(seed, RUNS.options, TraceTo(str(directory / "traces" / f"{seed}.trace"), f"seed {seed}"))
    return directory


@pytest.fixture(scope="module")
def on_workers(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """What came out of the program, and where it has kept its campaign; `spark` is asked for as it finds a Java."""
    scratch = tmp_path_factory.mktemp("workers")
    environment = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    environment |= {
        "SPARK_HOME": str(home_with_room_to_work(scratch / "home")),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "tests.spark.on_two_workers"),
            *(f"{inputs}/nodes/node-*", str(scratch / "out"), f"{inputs}/traces/*"),
        ],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=ALLOWED_SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
    return json.loads(completed.stdout), scratch / "out"


def home_with_room_to_work(path: Path) -> Path:
    """Spark as it is installed, but that workers of a local cluster, which write below it, write somewhere else."""
    path.mkdir()
    for file in Path(pyspark.__file__).parent.iterdir():
        if file.name != "work":
            (path / file.name).symlink_to(file)
    return path


def assert_same(here: Results, there: Results) -> None:
    for name, lines in here.items():
        assert lines, f"{name}: there is something to compare"
        assert there[name] == lines, name


def test_tables_come_out_the_same(spark: SparkSession, inputs: Path, on_workers: tuple[Results, Path]) -> None:
    there, _ = on_workers
    here = tables(spark, f"{inputs}/nodes/node-*")
    assert_same(here, there)
    assert any("CRC" in line for line in here["batches"]), "with what is wrong in them"
    assert len(there["workers"]) == 2, "both have had a part in it"


def test_audits_traces_and_campaigns_come_out_the_same(
    spark: SparkSession, inputs: Path, on_workers: tuple[Results, Path]
) -> None:
    there, _ = on_workers
    here = more(spark, f"{inputs}/nodes/node-*", f"{inputs}/traces/*")
    assert_same(here, there)
    assert any("log_checksums" in line for line in here["violations"])


def test_a_bad_seed_of_each_kind_harms_no_other(on_workers: tuple[Results, Path]) -> None:
    there, out = on_workers
    expected = {seed: RULES.get(seed) for seed in BAD_SEEDS}
    assert there["bad seeds"] == sorted(f"{seed} {rule or 'ok'}" for seed, rule in expected.items())
    rows = pq.read_table(out / "bad" / "results").to_pylist()
    assert {row["seed"]: row["rule"] for row in rows} == expected
    assert len(rows) == len(expected), "none is there twice"
