"""Turns rows into records: checks a writer's columns and encodes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import msgpack
import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from kraft_trio.errors import ConfigError
from kraft_trio.spark.column_names import as_known
from kraft_trio.storage.batches.batch import NewRecord, RecordHeaders

KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"

_BYTES: Final = (BinaryType, StringType)
_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_OF_KAFKAS_SOURCE: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
"""What rows of `format("kafka")` have besides, with the types.  They say where a row comes from, and are left out."""
_SCALARS: Final = (
    spark_types.NullType,
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.TimestampType,
    *_BYTES,
)
"""The types that MessagePack supports; a timestamp is its extension -1."""


@attrs.frozen
class RecordMaker:
    """Makes records from rows.  Can be pickled."""

    names: tuple[str, ...]
    is_msgpack: bool

    @classmethod
    def of(cls, schema: StructType, *, is_msgpack: bool) -> RecordMaker:
        """Raises ConfigError naming the column, its type and the expectation.

        The names of `key`, `value` and `headers` may be in any case.
        """
        schema = as_known(schema, (KEY,) if is_msgpack else (KEY, VALUE, HEADERS, *_OF_KAFKAS_SOURCE))
        repeated = _repeated(schema)
        if repeated is not None:
            raise ConfigError(f"column {repeated}: there is more than one of that name")
        if is_msgpack:
            _check_msgpack(schema)
        else:
            _check_raw(schema)
        return cls(tuple(schema.names), is_msgpack)

    def records_of(self, rows: pa.RecordBatch) -> list[NewRecord]:
        """A record for each row, in order.  Raises ConfigError for a header without a name."""
        rows = rows.rename_columns(self.names)
        keys = _bytes_of(rows.column(KEY)) if KEY in self.names else [None] * rows.num_rows
        if self.is_msgpack:
            parts = rows.drop_columns([KEY] if KEY in self.names else [])
            maps = parts.to_pylist(maps_as_pydicts="strict")
            return [NewRecord(msgpack.packb(row, datetime=True), key) for key, row in zip(keys, maps, strict=True)]
        values = _bytes_of(rows.column(VALUE))
        if HEADERS not in self.names:
            return [NewRecord(value, key) for key, value in zip(keys, values, strict=True)]
        headers = [_headers_of(told or ()) for told in rows.column(HEADERS).to_pylist()]
        return [NewRecord(*parts) for parts in zip(values, keys, headers, strict=True)]


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


def _headers_of(told: Sequence[dict[str, Any]]) -> RecordHeaders:
    for header in told:
        if header is None or header["key"] is None:
            raise ConfigError(f"column {HEADERS}: {told}: a header without a key")
    return tuple((header["key"], header["value"]) for header in told)


def _check_raw(schema: StructType) -> None:
    if VALUE not in schema.names:
        raise ConfigError(f"columns {', '.join(schema.names)}: there is no column {VALUE}, which is the record's value")
    for field in schema:
        if field.name in (KEY, VALUE):
            _check_bytes(field)
        elif field.name in _OF_KAFKAS_SOURCE:
            expected = _OF_KAFKAS_SOURCE[field.name]
            if field.dataType.simpleString() != expected:
                raise ConfigError(
                    f"column {field.name} is {field.dataType.simpleString()}, expected {expected}, as of a row of "
                    "Spark's Kafka source; drop it, or make it a part of the value (value.format=msgpack)"
                )
        elif field.name != HEADERS:
            raise ConfigError(
                f"column {field.name}: expected {KEY}, {VALUE} and {HEADERS} only; drop it, or make it a part of the "
                "value (value.format=msgpack)"
            )
        elif field.dataType.simpleString() != _HEADERS_TYPE:
            raise ConfigError(f"column {HEADERS} is {field.dataType.simpleString()}, expected {_HEADERS_TYPE}")


def _check_msgpack(schema: StructType) -> None:
    if not set(schema.names) - {KEY}:
        raise ConfigError(f"columns {', '.join(schema.names)}: expected a column other than {KEY}, for the value")
    for field in schema:
        if field.name == KEY:
            _check_bytes(field)
        else:
            for problem in _not_packed(field.name, field.dataType):
                raise ConfigError(f"column {problem}")


def _check_bytes(field: StructField) -> None:
    if not isinstance(field.dataType, _BYTES):
        raise ConfigError(f"column {field.name} is {field.dataType.simpleString()}, expected binary or string")


def _repeated(schema: StructType) -> str | None:
    """A name that occurs more than once."""
    return min((name for name in schema.names if schema.names.count(name) > 1), default=None)


def _not_packed(where: str, type: DataType) -> Iterator[str]:
    """The places below this one that cannot be encoded, with the reasons."""
    if isinstance(type, StructType):
        repeated = _repeated(type)
        if repeated is not None:
            yield f"{where}.{repeated}: there is more than one of that name"
        for field in type:
            yield from _not_packed(f"{where}.{field.name}", field.dataType)
    elif isinstance(type, ArrayType):
        yield from _not_packed(f"{where}[]", type.elementType)
    elif isinstance(type, MapType):
        if isinstance(type.keyType, _SCALARS):
            yield from _not_packed(f"{where}.value", type.valueType)
        else:
            yield f"{where}.key is {type.keyType.simpleString()}, which is no key of a map here: cast it to string"
    elif not isinstance(type, _SCALARS):
        yield (
            f"{where} is {type.simpleString()}, which MessagePack does not have: cast it, to string or double as it "
            "may be"
        )
