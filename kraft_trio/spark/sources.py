"""The data sources that `kraft_trio.spark.register` registers."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from kraft_trio.spark.source import KraftDataSource
from kraft_trio.spark.trace_source import TraceDataSource

SOURCES: tuple[type[DataSource], ...] = (KraftDataSource, TraceDataSource)
