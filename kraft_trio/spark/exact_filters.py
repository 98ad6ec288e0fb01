"""Filters that a reader applies to its rows, so that Spark need not, and `explain` shows them in `PushedFilters`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

COMPARISONS: Final[Mapping[type[Filter], Callable[..., pa.Array]]] = {
    EqualTo: pyarrow.compute.equal,
    GreaterThan: pyarrow.compute.greater,
    GreaterThanOrEqual: pyarrow.compute.greater_equal,
    LessThan: pyarrow.compute.less,
    LessThanOrEqual: pyarrow.compute.less_equal,
}
_VALUES: Final[Mapping[pa.DataType, type]] = {
    pa.bool_(): bool,
    pa.int32(): int,
    pa.int64(): int,
    pa.string(): str,
    pa.binary(): bytes,
    pa.timestamp("us", tz="UTC"): datetime,
}
"""The columns that are compared, with the Python type of a filter's value."""


@attrs.define
class ExactFilters:
    """The filters of one query.  Can be pickled."""

    columns: Mapping[str, pa.DataType]
    """The columns of the rows, as the user writes their names."""
    _applied: tuple[Filter, ...] = ()

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Apply from now on what can be applied exactly.  Returns the others, which Spark has to apply."""
        judged = [(filter, self._is_exact(filter)) for filter in filters]
        self._applied = tuple(filter for filter, is_exact in judged if is_exact)
        return [filter for filter, is_exact in judged if not is_exact]

    def _is_exact(self, filter: Any) -> bool:
        column = self.columns.get(filter.attribute[0]) if len(getattr(filter, "attribute", ())) == 1 else None
        if column is None or isinstance(filter, IsNotNull):
            return column is not None
        if isinstance(filter, In):
            return column in _VALUES and all(_is_value(value, column) for value in filter.value)
        return type(filter) in COMPARISONS and column in _VALUES and _is_value(filter.value, column)

    def rows_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass all filters; a row whose column is null passes none."""
        for batch in batches:
            passing = batch
            for filter in self._applied:
                passing = passing.filter(_passes(filter, passing))
            if passing.num_rows:
                yield passing


def _is_value(value: Any, column: pa.DataType) -> bool:
    if type(value) is not _VALUES[column]:
        return False
    if isinstance(value, datetime):
        return value.tzinfo is not None
    largest = 2 ** (column.bit_width - 1) - 1 if pa.types.is_integer(column) else None
    return largest is None or -largest - 1 <= value <= largest


def _passes(filter: Any, batch: pa.RecordBatch) -> pa.Array:
    column = batch.column(filter.attribute[0])
    if isinstance(filter, IsNotNull):
        return column.is_valid()
    if isinstance(filter, In):
        return pyarrow.compute.is_in(column, pa.array(filter.value, column.type))
    return COMPARISONS[type(filter)](column, pa.scalar(filter.value, column.type))
