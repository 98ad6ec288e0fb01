"""scripts/spark-write-soak as a test: fifty kills over one query on a cluster of two executors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scripts.spark_write_query import PARTITIONS, ROWS
from scripts.spark_write_soak import KILLS, MASTER, Query, judge, soak
from tests.acceptance.conftest import MakeQuorum


@pytest.mark.nightly
def test_every_row_is_written_once(spark: SparkSession, make_quorum: MakeQuorum, tmp_path: Path) -> None:
    """`spark` finds a Java; the query has drivers of its own."""
    quorum = make_quorum(3)
    quorum.start()
    outcome = soak(quorum, Query(quorum, tmp_path / "query", MASTER), KILLS, seed=1)
    print(outcome)
    assert outcome.is_exact, outcome
    assert sum(outcome.kills.values()) == 50
    assert outcome.rows >= ROWS


WHOLE = list(range(2 * ROWS))
OTHER_ORDER = [*WHOLE[PARTITIONS : 2 * PARTITIONS], *WHOLE[:PARTITIONS], *WHOLE[2 * PARTITIONS :]]


@pytest.mark.parametrize(
    ("numbers", "faults"),
    [
        (WHOLE, (0, 0, 0)),
        ([*WHOLE[1::2], *WHOLE[::2]], (0, 0, 0)),
        (WHOLE[: ROWS + 10], (ROWS - 10, 0, 0)),
        ([*WHOLE, 2 * ROWS, 2 * ROWS + 1], (0, 0, 0)),
        ([*WHOLE, WHOLE[-1]], (0, 1, 1)),
        (OTHER_ORDER, (0, 0, PARTITIONS)),
        ([*WHOLE, 3 * ROWS], (0, 1, 1)),
    ],
)
def test_the_judge(numbers: list[int], faults: tuple[int, int, int]) -> None:
    """Two micro-batches are done; partitions mix, and the third may be there in part."""
    assert judge(numbers, 2) == faults
