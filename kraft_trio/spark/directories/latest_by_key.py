"""`content=latest-by-key`: the newest record of each key as of an offset, one task for each replica.

The state begins with the newest snapshot at or below the offset, and continues with the log up to it.  A task holds the
state in memory, as the node does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.msgpack_values import WHOLE_VALUE
from kraft_trio.spark.decoding.rows import WRONG_TIME, Rows
from kraft_trio.spark.directories.as_of import (
    NEEDED,
    AsOf,
    Base,
    base_of,
    log_records,
    snapshot_records,
    what_is_missing,
)
from kraft_trio.spark.directories.latest_state import LatestState
from kraft_trio.spark.directories.partitions import checked_options
from kraft_trio.spark.directories.reading import ROWS_A_BATCH
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.schemas import CONTENTS, ERROR, LATEST_BY_KEY, RECORD_HEADERS, Column
from kraft_trio.spark.table_properties import NO_PATH
from kraft_trio.spark.values import with_values

CONTENT: Final = "latest-by-key"
_NEEDED: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "control": pa.bool_(),
    **NEEDED,
}
"""The columns that folding looks at, with those that values are made from."""


@attrs.frozen
class ReplicaPartition(InputPartition):
    """The work of one task."""

    replica: Replica


def latest_columns(options: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns without a user's schema.  Raises ConfigError."""
    if options["value.format"] == "msgpack":
        raise ConfigError(f"content={CONTENT}: value.format=msgpack: give the columns of the values with schema(…)")
    *columns, error = CONTENTS[CONTENT]
    return (*columns, *([RECORD_HEADERS] if options["includeHeaders"] else []), error)


class LatestByKeyReader(DataSourceReader):
    """Reads the state of each replica in the paths."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        """Raises ConfigError for an unknown option or column, and without a path."""
        options = checked_options(given)
        self._paths = [*([options["path"]] if options["path"] else []), *options["paths"]]
        if not self._paths:
            raise ConfigError(NO_PATH)
        self._allow_mixed_clusters = options["allowMixedClusters"]
        self._as_of = AsOf(options["asOfOffset"])
        self._is_fail_fast = options["mode"] == "FAILFAST"
        self._spelled = tuple(schema.names)
        self._schema, self._of_values = _checked(schema, is_msgpack=options["value.format"] == "msgpack")

    def partitions(self) -> list[InputPartition]:
        """Raises ConfigError if there is nothing to read, or if directories belong to different clusters."""
        return [ReplicaPartition(replica) for replica in find_replicas(self._paths, self._allow_mixed_clusters)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReplicaPartition)
        for batch in self._rows(partition.replica):
            errors = batch.column(ERROR.name).drop_null()
            if self._is_fail_fast and len(errors):
                raise StorageError(f"{printable(partition.replica.directory)}: {errors[0]}")
            yield batch.select(self._schema.names).rename_columns(self._spelled)

    def _rows(self, replica: Replica) -> Iterator[pa.RecordBatch]:
        """What is damaged or missing, and then the state from the rest."""
        of_values = {field.name for field in self._of_values}
        decoded = pa.schema([field for field in self._schema if field.name not in of_values])
        names = {*decoded.names}
        decoded = pa.schema([*decoded, *(pa.field(name, type) for name, type in _NEEDED.items() if name not in names)])
        made = pa.schema([*self._schema, *(field for field in decoded if field.name not in self._schema.names)])

        def finished(batch: pa.RecordBatch) -> pa.RecordBatch:
            return with_values(batch, made, list(self._of_values)) if self._of_values else batch

        state = LatestState()
        base = base_of(replica, self._as_of)
        end = 0
        for found in _records(replica, base, self._as_of, decoded):
            batch, is_wrong = found, found.column(ERROR.name).is_valid()
            if pa.compute.any(is_wrong).as_py():
                yield finished(found.filter(is_wrong))
                batch, is_wrong = _without_wrong_times(found)
            largest = pa.compute.max(batch.column("offset")).as_py()
            end = end if largest is None else max(end, largest + 1)
            is_kept = pa.compute.and_not(
                pa.compute.fill_null(pa.compute.invert(batch.column("control")), False), is_wrong
            )
            state.add(batch.filter(is_kept))
        missing = what_is_missing(replica, self._as_of, base, end) if replica.partition else None
        if missing is not None:
            yield finished(Rows(decoded, replica.columns).one(error=missing))
        for batch in state.batches(ROWS_A_BATCH):
            yield finished(batch)


def _without_wrong_times(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """The batch without the errors that are only about times, and which of its rows have another one.

    A client chose such a time, which no column can hold.  The record counts like any other.
    """
    index = batch.schema.get_field_index(ERROR.name)
    error = batch.column(index)
    is_of_time = pa.compute.fill_null(pa.compute.starts_with(error, WRONG_TIME), False)
    error = pa.compute.if_else(is_of_time, pa.scalar(None, error.type), error)
    return batch.set_column(index, batch.schema.field(index), error), error.is_valid()


def _records(replica: Replica, base: Base | None, as_of: AsOf, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of the snapshot that the state begins with, and then those of the log."""
    if base is not None:
        yield from snapshot_records(replica, base, schema)
    yield from log_records(replica, 0 if base is None else base.id.offset, as_of, schema)


def _checked(schema: StructType, *, is_msgpack: bool) -> tuple[pa.Schema, tuple[pa.Field, ...]]:
    """The Arrow schema in known spelling, and its columns that come from values.  Raises ConfigError."""
    known = {column.name: column for column in (*LATEST_BY_KEY, RECORD_HEADERS)}
    arrow: pa.Schema = to_arrow_schema(as_known(schema, known), timezone="UTC")
    of_values = []
    for field in arrow:
        column = known.get(field.name)
        if column is not None and field.type == column.type:
            continue
        if is_msgpack and (column is None or field.name == WHOLE_VALUE):
            of_values.append(field)
        elif column is None:
            raise ConfigError(f"schema: content={CONTENT} has no column {field.name}; known are {', '.join(known)}")
        else:
            raise ConfigError(f"schema: column {field.name} is {column.spark_type}, not {field.type}")
    return arrow, tuple(of_values)
