"""Builds Arrow batches with the wanted columns from numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraft_trio.spark.decoding.headers import Ints
from kraft_trio.spark.file_system import printable

MakeColumn = Callable[[], pa.Array]

WRONG_TIME: Final = "timestamp is "
"""Errors that are only about a record's time begin so."""
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
"""The years 1 to 9999, which Python's datetime can represent."""


class Rows:
    """Makes Arrow batches of one schema from constant values and given columns, with nulls elsewhere."""

    def __init__(self, schema: pa.Schema, constants: Mapping[str, Any]) -> None:
        """Columns outside the schema are not built."""
        self.schema = schema
        self._constants = {name: value for name, value in constants.items() if name in schema.names}
        self._repeated: dict[str, pa.Array] = {}

    def make(self, count: int, columns: Mapping[str, MakeColumn]) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            make_column = columns.get(field.name)
            arrays.append(self._same(field, count) if make_column is None else make_column())
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def one(self, **values: Any) -> pa.RecordBatch:
        """One row."""
        return self.some([values])

    def some(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Rows from columns by name.  Numbers that do not fit become null, but sizes are capped.

        An error may contain an unprintable path, which is escaped.
        """
        columns = []
        for field in self.schema:
            values = [row.get(field.name, self._constants.get(field.name)) for row in rows]
            if pa.types.is_integer(field.type):
                largest = 2 ** (field.type.bit_width - 1) - 1
                if field.name == "size":
                    values = [None if value is None else min(value, largest) for value in values]
                values = [None if value is None or not -largest - 1 <= value <= largest else value for value in values]
            elif field.name == "error":
                values = [None if value is None else printable(value) for value in values]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _same(self, field: pa.Field, count: int) -> pa.Array:
        repeated = self._repeated.get(field.name)
        if repeated is None or len(repeated) < count:
            value = pa.scalar(self._constants.get(field.name), field.type)
            # Twice as many the next time: a small file needs few, a large one always the same.
            size = count if repeated is None else max(count, 2 * len(repeated))
            repeated = self._repeated[field.name] = pa.repeat(value, size)
        return repeated[:count]


def int32s(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.int32, copy=False))


def int64s(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.int64, copy=False))


def timestamps(milliseconds: Ints) -> pa.Array:
    """A column of timestamps.  Those that do not fit are null; see `is_no_timestamp`."""
    is_null = is_no_timestamp(milliseconds)
    if is_null.any():
        return pa.array(np.where(is_null, 0, milliseconds) * 1000, pa.int64(), mask=is_null).cast(_TIMESTAMP)
    return pa.Array.from_buffers(_TIMESTAMP, len(milliseconds), [None, pa.py_buffer(milliseconds * 1000)])


def is_no_timestamp(milliseconds: Ints) -> npt.NDArray[np.bool_]:
    """Whether the time lies outside the years 1 to 9999, so that a timestamp column cannot hold it."""
    return (milliseconds < _EARLIEST_MS) | (milliseconds > _LATEST_MS)


def microseconds(milliseconds: int) -> tuple[int | None, str | None]:
    """A value for a timestamp column; None and the reason if it does not fit."""
    if _EARLIEST_MS <= milliseconds <= _LATEST_MS:
        return milliseconds * 1000, None
    return None, no_timestamp(milliseconds)


def no_timestamp(milliseconds: int) -> str:
    return f"{WRONG_TIME}{milliseconds} ms since 1970, expected one of the years 1 to 9999"


def names(values: npt.NDArray[Any], texts: tuple[str, ...]) -> pa.Array:
    """The text for each number."""
    if len(values) and (values == values[0]).all():
        return pa.repeat(texts[int(values[0])], len(values))
    return pa.array(texts).take(pa.array(values.astype(np.int32)))


def sparse_texts(count: int, texts: Mapping[int, str | None]) -> pa.Array:
    """These texts at their places, null elsewhere."""
    if not texts:
        return pa.nulls(count, pa.string())
    return pa.array([texts.get(at) for at in range(count)], pa.string())


def binaries(data: bytes, starts: Ints, ends: Ints, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """Slices of `data`, which must be in order, without one Python object for each.

    Slices and the gaps between them form one binary array over the data; every second item is a slice.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    base = int(starts[0])
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts - base
    bounds[1::2] = ends - base
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data).slice(base)]
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pieces.take(pa.array(wanted, mask=is_null if is_null.any() else None))


_TIMESTAMP = pa.timestamp("us", tz="UTC")
