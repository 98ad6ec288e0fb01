"""The batch source by the reader that Spark calls; no session is needed for that."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from kraft_trio.spark.directories.partitions import DirectoryReader, checked_options, columns_of
from kraft_trio.spark.schemas import arrow_schema

Row = dict[str, Any]


def fields(**types: DataType) -> StructType:
    return StructType([StructField(name, type) for name, type in types.items()])


def reader_of(path: str | Path | list[str], schema: StructType | None = None, **options: str) -> DirectoryReader:
    given = {**options, **({"paths": json.dumps(path)} if isinstance(path, list) else {"path": str(path)})}
    if schema is None:
        schema = from_arrow_schema(arrow_schema(columns_of(checked_options(given))))
    return DirectoryReader(given, schema)


def load(path: str | Path | list[str], schema: StructType | None = None, **options: str) -> list[Row]:
    """The rows of all tasks, in their order."""
    reader = reader_of(path, schema, **options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def column(rows: Iterable[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def sound(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["error"] is None]


def errors(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["error"] is not None]
