"""The reader of the batch source `kraft`: plans a query's tasks, and reads the rows of one task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.msgpack_values import WHOLE_VALUE
from kraft_trio.spark.directories.pieces import Piece, pack, plan_pieces, task_bytes
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, find_replicas, partition_topic
from kraft_trio.spark.options import KAFKA_COLUMNS, READ_OPTIONS, read_options, topic_of
from kraft_trio.spark.schemas import CONTENTS, OF_KAFKAS_SOURCE, RECORD_HEADERS, Column, arrow_schema
from kraft_trio.spark.table_properties import NO_PATH
from kraft_trio.spark.values import NEEDED, inferred_columns

SAMPLED_RECORDS = 1000
"""How many values are sampled to find their columns."""
SAMPLED_BYTES = 16 * 1024 * 1024
"""Sampling also stops when the values take this much."""


@attrs.frozen
class PiecesPartition(InputPartition):
    """The work of one task."""

    pieces: list[Piece]


class DirectoryReader(DataSourceReader):
    """Reads replicas' directories.  Each planning process creates its own."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises ConfigError for an unknown option or column."""
        self._options = checked_options(options)
        content = self._options["content"]
        arrow, value_fields = _checked_schema(self._options, schema)
        self._plan = ReadPlan(
            content, arrow, _batch_filter(self._options), self._options["mode"] == "FAILFAST", value_fields
        )
        self._topics = _topics_named(options)
        self._of_replicas: list[tuple[str, frozenset[Any]]] = []
        """Columns of replicas, and the values they may have."""

    def partitions(self) -> list[InputPartition]:
        """Raises ConfigError if there is nothing to read, for directories of different clusters, and for another topic
        than options name.
        """
        replicas = find_replicas(_paths(self._options), self._options["allowMixedClusters"])
        _check_topics(self._topics, replicas)
        for name, values in self._of_replicas:
            replicas = [replica for replica in replicas if replica.columns[name] in values]
        content, wanted = self._plan.content, self._plan.wanted
        target = task_bytes(replicas, content, wanted, self._options["maxPartitionBytes"])
        pieces = plan_pieces(replicas, content, wanted, target)
        return [PiecesPartition(together) for together in pack(pieces, target)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PiecesPartition):
            # Spark's own partition, if none was planned.
            return iter(())
        return read_pieces(partition.pieces, self._plan)


def checked_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The values of all options.  Raises ConfigError for an option that is unknown or does not apply to the content."""
    options = read_options("kraft", READ_OPTIONS, given)
    for option in READ_OPTIONS:
        if options[option.name] != option.default and not option.is_of(options["content"]):
            text = next(text for name, text in given.items() if name.lower() == option.name.lower())
            contents = " or ".join(f"content={content}" for content in option.contents)
            raise ConfigError(
                f"format kraft: option {option.name}={text}: says nothing of content={options['content']}; expected "
                f"{contents}"
            )
    return options


def columns_of(options: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of a read with these options and without a schema.

    With `value.format=msgpack`, this reads some records.  Raises ConfigError if there is nothing to read.
    """
    *columns, error = CONTENTS[options["content"]]
    if options["includeHeaders"]:
        columns.append(RECORD_HEADERS)
    if options[KAFKA_COLUMNS]:
        columns += OF_KAFKAS_SOURCE
    if _is_msgpack(options):
        columns += inferred_columns(_sample(options), [column.name for column in (*columns, RECORD_HEADERS, error)])
    return (*columns, error)


def on_request(options: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of records that a schema may name too.  Values may have entries with the names of Kafka's."""
    return (RECORD_HEADERS, *(OF_KAFKAS_SOURCE if options[KAFKA_COLUMNS] else ()))


def _has_records(options: Mapping[str, Any]) -> bool:
    return options["content"] in ("records", "snapshot-records")


def _is_msgpack(options: Mapping[str, Any]) -> bool:
    return bool(options["value.format"] == "msgpack")


def _sample(options: Mapping[str, Any]) -> list[bytes | None]:
    """The values of the first application records."""
    replicas = find_replicas(_paths(options), options["allowMixedClusters"])
    wanted = _batch_filter(options)
    columns = [column for column in CONTENTS[options["content"]] if column.name in NEEDED]
    plan = ReadPlan(options["content"], arrow_schema(columns), wanted, is_fail_fast=False)
    values: list[bytes | None] = []
    size = 0
    for batch in read_pieces(plan_pieces(replicas, plan.content, wanted, options["maxPartitionBytes"]), plan):
        for value, control in zip(batch.column(WHOLE_VALUE), batch.column("control"), strict=True):
            if control.as_py() is False:
                values.append(value.as_py())
                size += len(values[-1] or b"")
                if len(values) == SAMPLED_RECORDS or size >= SAMPLED_BYTES:
                    return values
    return values


def _checked_schema(options: Mapping[str, Any], schema: StructType) -> tuple[pa.Schema, tuple[pa.Field, ...]]:
    """The Arrow schema, and the columns that come from values.  Raises ConfigError."""
    content = options["content"]
    arrow: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    known = {column.name: column for column in CONTENTS[content]}
    if _has_records(options):
        known |= {column.name: column for column in on_request(options)}
    of_values = []
    for field in arrow:
        column = known.get(field.name)
        is_right = column is not None and field.type == column.type
        if not is_right and _is_msgpack(options) and (column is None or field.name == WHOLE_VALUE):
            of_values.append(field)
        elif column is None:
            raise ConfigError(f"schema: content={content} has no column {field.name}; known are {', '.join(known)}")
        elif not is_right:
            raise ConfigError(f"schema: column {field.name} is {column.spark_type}, not {field.type}")
    return arrow, tuple(of_values)


def _batch_filter(options: Mapping[str, Any]) -> BatchFilter:
    first_epoch, last_epoch = options["epochs"]
    return BatchFilter(
        options["startingOffsets"], options["endingOffsets"], first_epoch, last_epoch, options["content"] == "control"
    )


_PLACES = ("startingoffsets", "endingoffsets", "asofoffset")


def _topics_named(given: Mapping[str, str]) -> dict[str, str]:
    """The topics that options with an offset name, by option."""
    topics = {name: topic_of(text) for name, text in given.items() if name.lower() in _PLACES}
    return {name: topic for name, topic in topics.items() if topic is not None}


def _check_topics(named: Mapping[str, str], replicas: Iterable[Replica]) -> None:
    """Raise ConfigError if a replica has another topic."""
    for replica in replicas:
        topic = partition_topic(replica.partition)
        for option, expected in named.items():
            if topic and topic != expected:
                raise ConfigError(
                    f"format kraft: option {option}: names topic {expected}, and {replica.partition} has topic {topic}"
                )


def _paths(options: Mapping[str, Any]) -> list[str]:
    """The paths passed to `load`.  Raises ConfigError if there are none."""
    paths = [*([options["path"]] if options["path"] else []), *options["paths"]]
    if not paths:
        raise ConfigError(NO_PATH)
    return paths
