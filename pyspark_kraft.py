"""Found by Spark by its name: makes `format("kraft")` known to every session where this package is installed."""

from kraft_trio.spark.source import KraftDataSource as DefaultSource

__all__ = ["DefaultSource"]
