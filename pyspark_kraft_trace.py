"""Found by Spark by its name: makes `format("kraft-trace")` known to every session where this package is installed."""

from kraft_trio.spark.trace_source import TraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
