"""`kraft_trio.spark.session`."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Timer

import pytest
from pyspark.sql import SparkSession

from kraft_trio.spark.spark_session import finds_sources

LONGEST_S = 120.0


def test_a_second_call_gives_the_session_that_runs(spark: SparkSession) -> None:
    from kraft_trio.spark import session

    assert session() is spark


def test_whether_spark_finds_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It asks the Python that Spark will run, which need not be this one."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert finds_sources()
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    of_blanks = tmp_path / "a python"
    of_blanks.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    for python in (bare, of_blanks, tmp_path / "none"):
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
        assert not finds_sources()


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
