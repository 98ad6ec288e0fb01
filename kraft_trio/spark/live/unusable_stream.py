"""A stream reader for options or columns that are wrong.

If `DataSource.streamReader` raises, Spark reports an UnboundLocalError of its own.  It reports what a reader's methods
raise as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from kraft_trio.errors import ConfigError


class UnusableStream(DataSourceStreamReader):
    """Raises the error from whatever Spark asks first."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    def _fail(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:
        self._fail()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._fail()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._fail()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._fail()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._fail()


def or_unusable(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """The reader, or one that raises the ConfigError with which making it fails."""
    try:
        return make()
    except ConfigError as error:
        return UnusableStream(error)
