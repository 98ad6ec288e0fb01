"""`kraft_trio.spark.session`."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_second_call_gives_the_session_that_runs(spark: SparkSession) -> None:
    from kraft_trio.spark import session

    assert session() is spark
