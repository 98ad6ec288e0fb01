"""The batch data source `kraft-trace`: traces of simulated runs and real nodes as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedReader, RawIOBase
from typing import cast

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.trace_events import problem_batch, trace_batches
from kraft_trio.spark.directories.files import files_of
from kraft_trio.spark.directories.trace_paths import TraceFile, files_of_traces, grouped
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.options import TRACE_OPTIONS, read_options
from kraft_trio.spark.schemas import TRACE, Column, spark_schema
from kraft_trio.tracing.files import TraceFileError


class TraceDataSource(DataSource):
    """`spark.read.format("kraft-trace").load("traces/*")`.

    docs/reference/spark.md describes its options and columns.
    """

    @classmethod
    def name(cls) -> str:
        return "kraft-trace"

    def schema(self) -> str:
        read_options(self.name(), TRACE_OPTIONS, dict(self.options))
        return spark_schema(TRACE)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.name(), TRACE_OPTIONS, dict(self.options))
        return _Reader(
            schema.names,
            [*([options["path"]] if options["path"] else []), *options["paths"]],
            _projection(schema),
            options["mode"] == "FAILFAST",
            options["maxPartitionBytes"],
        )


@attrs.frozen
class _Files(InputPartition):
    """The files that one task reads, in order."""

    files: tuple[TraceFile, ...]


class _Reader(DataSourceReader):
    def __init__(
        self,
        spelled: Sequence[str],
        paths: Sequence[str],
        columns: Sequence[Column],
        fail_fast: bool,
        partition_bytes: int,
    ) -> None:
        self._spelled = tuple(spelled)
        """The columns' names as the user writes them."""
        self._paths = paths
        self._columns = tuple(columns)
        self._fail_fast = fail_fast
        self._partition_bytes = partition_bytes

    def partitions(self) -> Sequence[InputPartition]:
        # Import it only here, because the reader goes to every task.
        return [_Files(files) for files in grouped(files_of_traces(self._paths), self._partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Files)
        for file in partition.files:
            for batch in self._events(file):
                yield batch.rename_columns(self._spelled)

    def _events(self, file: TraceFile) -> Iterator[pa.RecordBatch]:
        problem, name = file.problem, printable(file.path)
        if problem is None:
            try:
                with files_of(file.path).open(file.path) as raw, BufferedReader(cast(RawIOBase, raw)) as content:
                    yield from trace_batches(content, name, self._columns, fail_fast=self._fail_fast)
            except OSError as error:
                problem = f"cannot be read: {error.strerror or error}"
        if problem is not None:
            if self._fail_fast:
                raise TraceFileError(f"{name}: {problem}")
            yield problem_batch(name, problem, self._columns)


def _projection(schema: StructType) -> Sequence[Column]:
    """The columns of the user's schema, or all columns."""
    known = {column.name: column for column in TRACE}
    schema = as_known(schema, known)
    for field in schema.fields:
        column = known.get(field.name)
        if column is None or field.dataType.simpleString() != column.spark_type:
            expected = f"{column.name} {column.spark_type}" if column else f"one of {', '.join(known)}"
            raise ConfigError(
                f"format kraft-trace: column {field.name} {field.dataType.simpleString()}, expected {expected}"
            )
    return [known[field.name] for field in schema.fields]
