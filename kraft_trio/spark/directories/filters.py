"""The reader of directories as Spark gets it: column names in any case, and filters if Spark pushes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    ColumnPath,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.batch_filter import NO_BEGINNING, NO_END, BatchFilter
from kraft_trio.spark.directories.partitions import DirectoryReader, checked_options, on_request
from kraft_trio.spark.exact_filters import ExactFilters
from kraft_trio.spark.schemas import CONTENTS, REPLICA
from kraft_trio.spark.table_properties import NO_PATH

_FIRST = {
    "offset": "start_offset",
    "base_offset": "start_offset",
    "last_offset": "start_offset",
    "epoch": "first_epoch",
}
_LAST = {"offset": "end_offset", "base_offset": "end_offset", "last_offset": "end_offset", "epoch": "last_epoch"}
_OF_REPLICA = {column.name: int if pa.types.is_integer(column.type) else str for column in REPLICA}
"""The columns that describe replicas, and the type of each."""


_TIME = "timestamp"
_LATEST_TIME = "max_timestamp"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


Comparison = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
Push = Callable[[list[Filter]], Iterable[Filter]]


class WhenAllowed:
    """A reader's `pushFilters`, which Spark calls if `spark.sql.python.filterPushdown.enabled` is set.

    Without the setting, Spark refuses a reader that overrides the method.  It tells an override by the function behind
    the method, and finds the one of DataSourceReader here.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Push) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


def offsets_of(filter: Filter, known: Mapping[str, str]) -> tuple[int, int]:
    """The record offsets that a filter leaves, with an exclusive end; `known` has the known name of each column."""
    if not isinstance(filter, Comparison):
        return 0, NO_END
    if known.get(filter.attribute[0]) != "offset" or type(filter.value) is not int:
        return 0, NO_END
    at, after = filter.value, filter.value + 1
    match filter:
        case EqualTo():
            return at, after
        case GreaterThan():
            return after, NO_END
        case GreaterThanOrEqual():
            return at, NO_END
        case LessThan():
            return 0, at
        case _:
            return 0, after


def times_of(filter: Filter) -> tuple[int, int]:
    """The times that a filter of a column with timestamps leaves, both inclusive, in milliseconds since 1970.

    Rounded outwards to a millisecond; records have no finer times.
    """
    if not isinstance(filter, Comparison) or not isinstance(filter.value, datetime) or filter.value.tzinfo is None:
        return NO_BEGINNING, NO_END
    at = (filter.value - _EPOCH) // _MILLISECOND
    first = NO_BEGINNING if isinstance(filter, LessThan | LessThanOrEqual) else at
    return first, NO_END if isinstance(filter, GreaterThan | GreaterThanOrEqual) else at


class FilteringReader(DirectoryReader):
    """Skips replicas, segments and batches that a filter excludes.

    It applies those filters to its rows that it can apply exactly, and leaves the others to Spark.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises ConfigError for an unknown option or column, and without a path."""
        read = checked_options(options)
        if not read["path"] and not read["paths"]:
            raise ConfigError(NO_PATH)
        known = as_known(schema, [column.name for column in (*CONTENTS[read["content"]], *on_request(read))])
        super().__init__(options, known)
        self._spelled = tuple(schema.names)
        """The columns' names as the user writes them."""
        self._known = dict(zip(self._spelled, known.names, strict=True))
        self._exact = ExactFilters(dict(zip(self._spelled, self._plan.schema.types, strict=True)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._exact.rows_of(batch.rename_columns(self._spelled) for batch in super().read(partition))

    @property
    def pushFilters(self) -> WhenAllowed:
        return WhenAllowed(self._push if self._options["pushFilters"] else list)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        for filter in filters:
            self._narrow(filter)
        return self._exact.push(filters)

    def _narrow(self, filter: Filter) -> None:
        self._narrow_times(filter)
        match filter:
            case EqualTo(attribute, value):
                self._narrow_numbers(attribute, value, value, value)
                self._narrow_replicas(attribute, (value,))
                if self._name_of(attribute) == "control" and value is True:
                    self._want(attrs.evolve(self._plan.wanted, only_control=True))
            case In(attribute, values):
                self._narrow_replicas(attribute, values)
            case GreaterThan(attribute, value) if type(value) is int:
                self._narrow_numbers(attribute, value, value + 1, None)
            case GreaterThanOrEqual(attribute, value):
                self._narrow_numbers(attribute, value, value, None)
            case LessThan(attribute, value) if type(value) is int:
                self._narrow_numbers(attribute, value, None, value - 1)
            case LessThanOrEqual(attribute, value):
                self._narrow_numbers(attribute, value, None, value)
            case _:
                pass

    def _name_of(self, attribute: ColumnPath) -> str | None:
        """The column's name if it belongs to the content.  Columns made from values may have any name, such as
        `last_offset`.
        """
        name = self._known.get(attribute[0])
        return name if name in [column.name for column in CONTENTS[self._plan.content]] else None

    def _narrow_numbers(self, attribute: ColumnPath, value: Any, first: Any, last: Any) -> None:
        """Both ends are inclusive; None means unbounded."""
        name = self._name_of(attribute)
        if name is None or name not in _FIRST or type(value) is not int:
            return
        wanted = self._plan.wanted
        if first is not None:
            lower = _FIRST[name]
            wanted = attrs.evolve(wanted, **{lower: max(getattr(wanted, lower), first)})
        if last is not None:
            upper = _LAST[name]
            end = last + 1 if upper == "end_offset" else last
            wanted = attrs.evolve(wanted, **{upper: min(getattr(wanted, upper), end)})
        self._want(wanted)

    def _narrow_times(self, filter: Filter) -> None:
        name = self._name_of(filter.attribute) if isinstance(filter, Comparison) else None
        if name in (_TIME, _LATEST_TIME):
            first_ms, last_ms = times_of(filter)
            wanted = self._plan.wanted
            if name == _TIME:
                wanted = attrs.evolve(wanted, last_ms=min(wanted.last_ms, last_ms))
            self._want(attrs.evolve(wanted, first_ms=max(wanted.first_ms, first_ms)))

    def _narrow_replicas(self, attribute: ColumnPath, values: tuple[Any, ...]) -> None:
        name = self._name_of(attribute)
        if name is not None and name in _OF_REPLICA and all(type(value) is _OF_REPLICA[name] for value in values):
            self._of_replicas.append((name, frozenset(values)))

    def _want(self, wanted: BatchFilter) -> None:
        if self._plan.content in ("records", "batches", "control", "snapshot-records"):
            self._plan = attrs.evolve(self._plan, wanted=wanted)
