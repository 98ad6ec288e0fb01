"""The reader of the batch source `kraft`: plans the tasks of a query, and reads the rows of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.options import READ_OPTIONS, read_options
from kraft_trio.spark.pieces import Piece, pack, plan_pieces
from kraft_trio.spark.reading import ReadPlan, read_pieces
from kraft_trio.spark.replicas import find_replicas
from kraft_trio.spark.schemas import CONTENTS, RECORD_HEADERS, Column


@attrs.frozen
class PiecesPartition(InputPartition):
    """What one task reads."""

    pieces: list[Piece]


class DirectoryReader(DataSourceReader):
    """Reads replicas' directories; made anew in each process that plans."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises ConfigError for an option or a column that does not exist."""
        self._options = read_options("kraft", READ_OPTIONS, options)
        content = self._options["content"]
        self._plan = ReadPlan(
            content,
            _checked_schema(content, schema),
            _batch_filter(self._options),
            self._options["mode"] == "FAILFAST",
        )

    def partitions(self) -> list[InputPartition]:
        """Raises ConfigError where there is nothing to read, and for directories of several clusters."""
        replicas = find_replicas(_paths(self._options), self._options["allowMixedClusters"])
        target = self._options["maxPartitionBytes"]
        pieces = list(plan_pieces(replicas, self._plan.content, self._plan.wanted, target))
        return [PiecesPartition(together) for together in pack(pieces, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PiecesPartition):
            # Spark's own, where nothing was planned.
            return iter(())
        return read_pieces(partition.pieces, self._plan)


def columns_of(options: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of a read with those options, where no schema is given."""
    columns = CONTENTS[options["content"]]
    if not options["includeHeaders"]:
        return columns
    return (*columns[:-1], RECORD_HEADERS, columns[-1])


def _checked_schema(content: str, schema: StructType) -> pa.Schema:
    arrow: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    known = {column.name: column for column in (*CONTENTS[content], RECORD_HEADERS)}
    for field in arrow:
        column = known.get(field.name)
        if column is None:
            raise ConfigError(
                f"schema: content={content} has no column {field.name}; known are {', '.join(sorted(known))}"
            )
        if field.type != column.type:
            raise ConfigError(f"schema: column {field.name} is {column.spark_type}, not {field.type}")
    return arrow


def _batch_filter(options: Mapping[str, Any]) -> BatchFilter:
    first_epoch, last_epoch = options["epochs"]
    return BatchFilter(
        options["startingOffsets"], options["endingOffsets"], first_epoch, last_epoch, options["content"] == "control"
    )


def _paths(options: Mapping[str, Any]) -> list[str]:
    """What `load` was given.  Raises ConfigError for nothing."""
    paths = [options["path"]] if options["path"] else []
    if options["paths"]:
        paths += json.loads(options["paths"])
    if not paths:
        raise ConfigError("no path: expected load(PATH), a directory of a replica or a glob of them")
    return paths
