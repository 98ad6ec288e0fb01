"""Logs, snapshots and traces of any number of replicas as Spark tables: the extra `spark` (see docs/SPARK.md).

Importing this package brings in no PySpark; its functions do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: SparkSession) -> None:
    """Make `format("kraft")` and the other sources of this package known to a session.

    Not needed where the package is installed: Spark finds the modules `pyspark_kraft` and `pyspark_kraft_trace` by
    their names.
    """
    from kraft_trio.spark.sources import SOURCES

    for source in SOURCES:
        spark.dataSource.register(source)


def session(
    master: str = "local[*]", app_name: str = "kraft", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one with settings that suit these sources; `settings` are Spark's own and win.

    Finds a Java as `kraft_trio.spark.java.use_java` does.  Whoever makes it stops it.  Raises StorageError where no
    Java is found; ImportError without the extra `spark`.
    """
    from kraft_trio.spark.spark_session import make_session

    spark = make_session(master, app_name, settings or {})
    register(spark)
    return spark
