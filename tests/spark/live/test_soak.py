"""The short form of scripts/spark-soak."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from scripts.spark_soak import VOTERS, soak
from tests.acceptance.conftest import MakeQuorum


def test_output_is_the_committed_log(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    quorum = make_quorum(VOTERS, observers=1)
    quorum.start()
    outcome = soak(spark, quorum, tmp_path, seconds=40.0, kills=3)
    assert outcome.is_exact, outcome
    assert outcome.query_starts == 3
    assert outcome.voters_seen == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3]]
    assert outcome.rows_written == outcome.records_committed >= outcome.records_acknowledged > 0
