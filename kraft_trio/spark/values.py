"""`value.format=msgpack`: turns the contents of application values into columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from kraft_trio.spark.decoding.msgpack_values import (
    DOES_NOT_FIT,
    WHOLE_VALUE,
    column_of,
    msgpack_columns,
    unpack,
)
from kraft_trio.spark.schemas import ERROR, Column, spark_type

NEEDED = (WHOLE_VALUE, "control", ERROR.name)
"""The columns made from values, and where problems with them are reported."""


def with_values(batch: pa.RecordBatch, schema: pa.Schema, fields: list[pa.Field]) -> pa.RecordBatch:
    """Add the columns made from values; control records have no application value.

    `schema` is that of the result.  A value that does not fit becomes null, and `error` says why.
    """
    is_control = pa.compute.fill_null(batch.column("control"), False)
    values = pa.compute.if_else(is_control, pa.scalar(None, pa.binary()), batch.column(WHOLE_VALUE))
    columns, problems = msgpack_columns(values, fields)
    made = dict(zip((field.name for field in fields), columns, strict=True))
    errors = batch.column(ERROR.name)
    if problems:
        texts = [problems.get(at) for at in range(batch.num_rows)]
        errors = pa.compute.coalesce(errors, pa.array(texts, pa.string()))
    made[ERROR.name] = errors
    arrays = [made[name] if name in made else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def inferred_columns(values: Iterable[bytes | None], taken: Iterable[str]) -> list[Column]:
    """A column for each key of the maps in these values, in order of appearance.

    Leaves out names that are taken (ignoring case) and names whose values have no common type.
    """
    found: dict[str, list[Any]] = {}
    for value in values:
        for name, item in _map(value).items():
            if isinstance(name, str):
                found.setdefault(name, []).append(item)
    reserved = {name.lower() for name in taken}
    columns = []
    for name, items in found.items():
        type = _common_type(items)
        if type is not None and name.lower() not in reserved:
            columns.append(Column(name, type, "of the values"))
            reserved.add(name.lower())
    return columns


def _map(value: bytes | None) -> Mapping[Any, Any]:
    if value is None:
        return {}
    try:
        decoded = unpack(value)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _common_type(items: list[Any]) -> pa.DataType | None:
    """The column type that fits all of them, or None."""
    try:
        inferred = pa.infer_type(items)
        inferred = pa.string() if pa.types.is_null(inferred) else inferred
        if pa.types.is_timestamp(inferred):
            inferred = pa.timestamp("us", tz="UTC")
        spark_type(inferred)
        # Arrow samples the values, and may take the type of the first number for texts too.
        column_of(items, inferred)
    except (*DOES_NOT_FIT, KeyError):
        return None
    return inferred
