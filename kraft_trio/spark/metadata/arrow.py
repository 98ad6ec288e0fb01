"""Arrow's types and arrays for columns of metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from kraft_trio.metadata.columns import BINARY, BOOL, FLOAT64, INT32, INT64, STRUCT, TEXT, TIME_MS, Column, ValueType

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    BOOL: pa.bool_(),
    INT32: pa.int32(),
    INT64: pa.int64(),
    FLOAT64: pa.float64(),
    TEXT: pa.string(),
    BINARY: pa.binary(),
    TIME_MS: _TIMESTAMP,
}


def arrow_type(type: ValueType) -> pa.DataType:
    """Arrow's type of a column or field."""
    if type.kind == STRUCT:
        made = pa.struct([pa.field(name, arrow_type(inner)) for name, inner in type.fields])
    else:
        made = _TYPES[type.kind]
    return pa.list_(pa.field("element", made)) if type.is_array else made


def column_array(values: Sequence[Any], type: ValueType) -> pa.Array:
    """An array of plain values, as `Column.of` makes them."""
    if type.kind == TIME_MS:
        # A number outside of Spark's years would end the query.
        in_range = [value if value is not None and 0 <= value < _LATEST_MS else None for value in values]
        return pa.array(in_range, pa.timestamp("ms", tz="UTC")).cast(_TIMESTAMP)
    return pa.array(values, arrow_type(type))


def struct_type(columns: Sequence[Column]) -> pa.DataType:
    """The type of a struct with these columns."""
    return pa.struct([pa.field(column.name, arrow_type(column.type)) for column in columns])


def struct_array(records: Sequence[Any], columns: Sequence[Column]) -> pa.Array:
    """A struct for each record."""
    if not columns:
        return pa.array([{}] * len(records), pa.struct([]))
    arrays = [column_array([column.of(record) for record in records], column.type) for column in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(struct_type(columns)))


_LATEST_MS: Final = 253_402_300_800_000
"""The end of the year 9999."""
