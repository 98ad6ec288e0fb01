"""The reader of metadata in replicas' directories, as Spark calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.filters import WhenAllowed, offsets_of
from kraft_trio.spark.directories.partitions import PiecesPartition, checked_options
from kraft_trio.spark.directories.pieces import pack, plan_pieces, task_bytes
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.metadata.changes import change_rows
from kraft_trio.spark.metadata.contents import metadata_columns
from kraft_trio.spark.metadata.state import state_rows
from kraft_trio.spark.metadata.typed_records import NEEDED, typed_rows
from kraft_trio.spark.schemas import CHANGES, CONTENTS, ERROR, METADATA, REPLICA
from kraft_trio.spark.table_properties import NO_PATH

_KINDS = {METADATA: "type", CHANGES: "entity"}
"""The column by which a filter spares work, for each content that has one."""


@attrs.frozen
class ReplicaPartition(InputPartition):
    """The work of one task that replays a whole replica."""

    replica: Replica


class MetadataReader(DataSourceReader):
    """Reads one of METADATA_CONTENTS: `metadata` in tasks for parts of segments, all else in one for each replica."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        """Raises ConfigError for an unknown option or column, and without a path."""
        options = checked_options(given)
        self._paths = [*([options["path"]] if options["path"] else []), *options["paths"]]
        if not self._paths:
            raise ConfigError(NO_PATH)
        self._options = options
        self._content: str = options["content"]
        known = {column.name: column for column in metadata_columns(self._content)}
        spelled = as_known(schema, known)
        self._names = dict(zip(schema.names, spelled.names, strict=True))
        """The known name of each of the user's columns."""
        self._schema: pa.Schema = to_arrow_schema(spelled, timezone="UTC")
        for field in self._schema:
            if field.name not in known:
                raise ConfigError(
                    f"schema: content={self._content} has no column {field.name}; known are {', '.join(known)}"
                )
            if field.type != known[field.name].type:
                raise ConfigError(f"schema: column {field.name} is {known[field.name].spark_type}, not {field.type}")
        self._start: int = options["startingOffsets"]
        self._end = AsOf(min(options["endingOffsets"], options["asOfOffset"]), options["asOfTimestamp"])
        self._kinds: frozenset[str] | None = options["types"] or options["entities"] or None
        self._of_replicas: list[tuple[str, frozenset[Any]]] = []

    def partitions(self) -> list[InputPartition]:
        """Raises ConfigError if there is nothing to read, or if directories belong to different clusters."""
        replicas = find_replicas(self._paths, self._options["allowMixedClusters"])
        for name, values in self._of_replicas:
            replicas = [replica for replica in replicas if replica.columns[name] in values]
        if self._content != METADATA:
            return [ReplicaPartition(replica) for replica in replicas]
        wanted = self._wanted()
        target = task_bytes(replicas, "records", wanted, self._options["maxPartitionBytes"])
        return [PiecesPartition(some) for some in pack(plan_pieces(replicas, "records", wanted, target), target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = self._schema
        if self._options["mode"] == "FAILFAST" and ERROR.name not in schema.names:
            schema = schema.append(pa.field(ERROR.name, ERROR.type))
        for batch in self._rows(partition, schema):
            if self._options["mode"] == "FAILFAST" and (errors := batch.column(ERROR.name).drop_null()):
                raise StorageError(f"{', '.join(map(printable, self._paths))}: {errors[0]}")
            yield batch.select(self._schema.names).rename_columns(list(self._names))

    def _rows(self, partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PiecesPartition):
            records = {column.name: column.type for column in CONTENTS["records"] if column.name in schema.names}
            plan = ReadPlan("records", pa.schema([*(records | NEEDED).items()]), self._wanted(), is_fail_fast=False)
            for batch in read_pieces(partition.pieces, plan):
                yield typed_rows(batch, schema, self._kinds)
        elif isinstance(partition, ReplicaPartition):
            if self._content == CHANGES:
                yield from change_rows(partition.replica, self._start, self._end, schema, self._kinds)
            else:
                yield from state_rows(partition.replica, self._content, self._end, schema)

    def _wanted(self) -> BatchFilter:
        return BatchFilter(self._start, self._end.offset)

    @property
    def pushFilters(self) -> WhenAllowed:
        return WhenAllowed(self._push if self._options["pushFilters"] else list)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less for each filter.  Spark applies all of them to the rows again."""
        for filter in filters:
            if isinstance(filter, EqualTo):
                self._only(self._names.get(filter.attribute[0]), (filter.value,))
            elif isinstance(filter, In):
                self._only(self._names.get(filter.attribute[0]), filter.value)
            if self._content in _KINDS:
                first, end = offsets_of(filter, self._names)
                self._start = max(self._start, first)
                if self._content == METADATA:  # A change counts with the end of its transaction, which may be later.
                    self._end = attrs.evolve(self._end, offset=min(self._end.offset, end))
        return filters

    def _only(self, name: str | None, values: Iterable[Any]) -> None:
        if name is not None and name == _KINDS.get(self._content):
            self._kinds = frozenset(values) & (self._kinds if self._kinds is not None else frozenset(values))
        elif name in [column.name for column in REPLICA]:
            self._of_replicas.append((str(name), frozenset(values)))
