"""Spark tables of the logs, snapshots and traces of any number of replicas; needs the extra `spark`.

See docs/how-to/query-with-spark.md.

Importing this package does not import PySpark; calling its functions does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def register(spark: SparkSession) -> None:
    """Register `format("kraft")` and the other sources of this package with a session.

    This is unnecessary if the package is installed: Spark finds the modules `pyspark_kraft` and `pyspark_kraft_trace`
    by their names.
    """
    from kraft_trio.spark.source import KraftDataSource
    from kraft_trio.spark.trace_source import TraceDataSource

    spark.dataSource.register(KraftDataSource)
    spark.dataSource.register(TraceDataSource)


def session(
    master: str = "local[*]", app_name: str = "kraft", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or a new one configured for these sources; `settings` override Spark's.

    Finds a Java like `kraft_trio.spark.java.use_java`.  The caller stops the session.  Raises StorageError if no Java
    is found; ImportError without the extra `spark`.
    """
    from kraft_trio.spark.spark_session import finds_sources, make_session

    spark = make_session(master, app_name, settings or {})
    if not finds_sources():
        register(spark)
    return spark
