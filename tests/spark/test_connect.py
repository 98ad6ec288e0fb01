"""Spark Connect: the sources work through it, and the audit and campaigns say at once that they need more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import SCRUBBED
from tests.spark.directories import make_node, numbered
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for _needed in ("grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(_needed, reason="needs pyspark[connect]")

PROGRAM = """
import json
import sys
from pyspark.sql import SparkSession
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.chunks import chunks_of
from kraft_trio.spark import register
from kraft_trio.spark.audit import audit
from kraft_trio.spark.campaigns.run import run_chunks

path, scratch = sys.argv[1:]
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.sql.warehouse.dir": scratch,
    "spark.connect.grpc.binding.address": "localhost",
}
builder = SparkSession.builder.remote("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def refusal(action):
    try:
        action()
    except ConfigError as error:
        return str(error)


register(spark)
print(json.dumps({
    "session": type(spark).__module__,
    "rows": spark.read.format("kraft").load(path).where("OFFSET >= 48").count(),
    "view": [row.n for row in spark.sql("select max(offset) n from log").collect()]
    if spark.sql(f"create temporary view log using kraft options (path '{path}')").collect() == [] else None,
    "audit": refusal(lambda: audit(spark, directories=[path])),
    "campaign": refusal(lambda: next(run_chunks(spark, chunks_of(range(1), 1), lambda chunk, attempt: []))),
}))
spark.stop()
"""


def test_sources_work_and_the_rest_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` is there for its Java alone."""
    node = make_node(tmp_path, 1, (0, numbered(0, 50)))
    environment = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    # Spark then takes a free port instead of its usual one.
    environment |= {"SPARK_TESTING": "1", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(REPOSITORY)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(node), str(tmp_path / "warehouse")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["session"] == "pyspark.sql.connect.session"
    assert (found["rows"], found["view"]) == (2, [49])
    for what, text in (("audit", "an audit"), ("campaign", "a campaign of simulations")):
        assert found[what].startswith(f"{text} needs a classic Spark session, and this one is of Spark Connect;")
