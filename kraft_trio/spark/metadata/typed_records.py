"""`content=metadata`: a row per metadata record, with a struct column for each type of record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.columns import Column as FieldColumn
from kraft_trio.metadata.columns import columns_of, why_undecodable
from kraft_trio.spark.metadata.arrow import struct_array, struct_type
from kraft_trio.spark.schemas import ERROR, REPLICA, Column
from kraft_trio.wire.metadata_frame import MetadataFrame, decode_metadata_frame
from kraft_trio.wire.metadata_schemas import SCHEMAS

_PLACE: Final = (
    Column("offset", pa.int64(), "of the record"),
    Column("epoch", pa.int32(), "leader epoch of the batch"),
    Column("timestamp", pa.timestamp("us", tz="UTC"), "of the record"),
)
_TYPE: Final = Column("type", pa.string(), "of the record, as Kafka's tools name it, such as TOPIC_RECORD")
_VERSION: Final = Column("version", pa.int32(), "of the record")
_MESSAGE: Final = Column("message", pa.binary(), "what follows the frame of a record that could not be decoded")
NEEDED: Final = {"control": pa.bool_(), "value": pa.binary(), ERROR.name: ERROR.type}
"""The columns of `content=records` that rows are made from."""
TYPE_NAMES: Final[Mapping[str, int]] = {schema.type_name: key for key, schema in SCHEMAS.items()}
"""API keys by the names of the types."""


@cache
def record_columns(key: int) -> tuple[FieldColumn, ...]:
    """The fields of one type of record, in its newest version."""
    return columns_of(SCHEMAS[key])


def typed_columns(types: Iterable[str] = ()) -> tuple[Column, ...]:
    """All columns, or those for some types of records."""
    keys = sorted(TYPE_NAMES[name] for name in types) or list(SCHEMAS)
    structs = (
        Column(SCHEMAS[key].type_name.lower(), struct_type(record_columns(key)), f"the fields of {SCHEMAS[key].name}")
        for key in keys
    )
    return (*REPLICA, *_PLACE, _TYPE, _VERSION, *structs, _MESSAGE, ERROR)


def typed_rows(batch: pa.RecordBatch, schema: pa.Schema, wanted: frozenset[str] | None = None) -> pa.RecordBatch:
    """Rows of `typed_columns` from those of `content=records`, which have `NEEDED`.

    Control records have no row.  Records of types that are not `wanted` are neither decoded nor kept.
    """
    errors = batch.column(ERROR.name)
    is_kept = pa.compute.or_(pa.compute.fill_null(pa.compute.invert(batch.column("control")), False), errors.is_valid())
    batch = batch.filter(is_kept)
    frames = [_frame(value) for value in batch.column("value").to_pylist()]
    told = batch.column(ERROR.name).to_pylist()
    if wanted is not None:
        kept = [
            at
            for at, (frame, error) in enumerate(zip(frames, told, strict=True))
            if error is not None or not isinstance(frame, MetadataFrame) or frame.name in wanted
        ]
        if len(kept) < len(frames):
            batch = batch.take(pa.array(kept, pa.int64()))
            frames, told = [frames[at] for at in kept], [told[at] for at in kept]
    return _made(batch, schema, frames, told)


def _made(
    batch: pa.RecordBatch, schema: pa.Schema, frames: list[MetadataFrame | str], told: list[str | None]
) -> pa.RecordBatch:
    count = len(frames)
    errors = list(told)
    messages: list[bytes | None] = [None] * count
    types: list[str | None] = [None] * count
    versions: list[int | None] = [None] * count
    places: dict[int, list[int]] = {}
    records: dict[int, list[Any]] = {}
    columns = {key: SCHEMAS[key].type_name.lower() for key in SCHEMAS}
    for at, frame in enumerate(frames):
        if told[at] is not None:
            continue
        if isinstance(frame, str):
            errors[at] = frame
            continue
        types[at], versions[at] = frame.name, frame.version
        if frame.api_key in columns and columns[frame.api_key] not in schema.names and ERROR.name not in schema.names:
            continue
        try:
            record = frame.record()
        except ProtocolError as error:
            errors[at], messages[at] = why_undecodable(frame, error)
            continue
        places.setdefault(frame.api_key, []).append(at)
        records.setdefault(frame.api_key, []).append(record)
    made = {
        _TYPE.name: lambda: pa.array(types, pa.string()),
        _VERSION.name: lambda: pa.array(versions, pa.int32()),
        _MESSAGE.name: lambda: pa.array(messages, pa.binary()),
        ERROR.name: lambda: pa.array(errors, pa.string()),
    }
    by_column = {columns[key]: key for key in columns}
    arrays = []
    for field in schema:
        if field.name in made:
            arrays.append(made[field.name]())
        elif field.name in by_column:
            key = by_column[field.name]
            arrays.append(_spread(records.get(key, []), places.get(key, []), record_columns(key), count, field.type))
        else:
            arrays.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spread(
    records: list[Any], places: list[int], columns: tuple[FieldColumn, ...], count: int, type: pa.DataType
) -> pa.Array:
    """The structs at their places, with nulls elsewhere."""
    if not records:
        return pa.nulls(count, type)
    indices = np.zeros(count, np.int64)
    is_null = np.ones(count, np.bool_)
    indices[places] = np.arange(len(places))
    is_null[places] = False
    return struct_array(records, columns).take(pa.array(indices, mask=is_null))


def _frame(value: bytes | None) -> MetadataFrame | str:
    """The frame, or why there is none."""
    try:
        return decode_metadata_frame(value or b"")
    except ProtocolError as error:
        return str(error)
