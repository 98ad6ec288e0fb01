"""The short form of scripts/spark-soak."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.quorum import Quorum
from scripts.spark_soak import OPTIONS, VOTERS, Outcome, soak
from tests.acceptance.conftest import MakeQuorum
from tests.spark.conftest import IN_PARTS
from tests.spark.live.micro_batches import MicroBatches
from tests.spark.live.to_parquet import ToParquet

SECONDS, KILLS = 20.0, 2


def running_quorum(make_quorum: MakeQuorum) -> Quorum:
    quorum: Quorum = make_quorum(VOTERS, observers=1)
    for node in quorum.nodes.values():
        node.start()
    return quorum


def assert_exact(outcome: Outcome) -> None:
    assert outcome.is_exact, outcome
    assert outcome.query_starts == 3
    assert outcome.voters_seen == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3]]
    assert outcome.rows_written == outcome.records_committed >= outcome.records_acknowledged > 0


@IN_PARTS
def test_the_reader_gives_the_committed_log(make_quorum: MakeQuorum) -> None:
    quorum = running_quorum(make_quorum)
    assert_exact(soak(quorum, MicroBatches(quorum, **OPTIONS), SECONDS, KILLS))


@pytest.mark.nightly
def test_the_output_of_a_query_is_the_committed_log(
    spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path
) -> None:
    quorum = running_quorum(make_quorum)
    assert_exact(soak(quorum, ToParquet(spark, quorum, tmp_path, **OPTIONS), SECONDS, KILLS))
