"""`kraft_trio.spark.session`."""

from __future__ import annotations

from threading import Timer

from pyspark.sql import SparkSession

LONGEST_S = 120.0


def test_a_second_call_gives_the_session_that_runs(spark: SparkSession) -> None:
    from kraft_trio.spark import session

    assert session() is spark


def test_a_task_does_not_wait_for_a_place_near_its_data(spark: SparkSession) -> None:
    """As it would if another task had one, for ever: HDFS tells where blocks are, and shuffles tell theirs."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    context = spark.sparkContext._jsc.sc()
    scala = jvm.scala.jdk.javaapi.CollectionConverters
    here = ("127.0.0.1", "localhost")
    rows = [jvm.scala.Tuple2(host, scala.asScala([host]).toSeq()) for host in ("elsewhere", *here)]
    data = context.makeRDD(scala.asScala(rows).toSeq(), jvm.scala.reflect.ClassTag.AnyRef())
    limit = Timer(LONGEST_S, spark.sparkContext.cancelAllJobs)
    limit.start()
    try:
        assert data.count() == 3
    finally:
        limit.cancel()
