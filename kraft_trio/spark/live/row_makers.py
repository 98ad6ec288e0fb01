"""What makes the rows of each content from committed batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError, ProtocolError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.live.change_rows import ChangesOfTask
from kraft_trio.spark.live.columns import RETRIES, live_columns
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import RECORDS_CONTENT, LiveOptions
from kraft_trio.spark.live.rows import RowMaker, decoded_rows
from kraft_trio.spark.metadata.typed_records import NEEDED, typed_rows
from kraft_trio.spark.schemas import CHANGES, CONTENTS, ERROR, arrow_schema


class MakesRows(Protocol):
    """Makes Arrow record batches with the wanted columns.  Can be pickled."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def spelled(self) -> tuple[str, ...]:
        """The columns' names as the user writes them."""

    def of_task(self, wanted: LogRange) -> MakesRows:
        """The one that makes the rows of a range."""

    def before(self) -> Iterator[pa.RecordBatch]:
        """The rows that come before those of records."""

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """The rows of whole batches.  Raises ProtocolError for damaged ones."""

    def end(self) -> None:
        """All records of the range have been passed."""


def row_maker(options: LiveOptions, schema: StructType) -> MakesRows:
    """Raises ConfigError naming a column that is unknown or has another type."""
    if options.content == RECORDS_CONTENT:
        return RowMaker.of(options, schema)
    known = arrow_schema(live_columns(options))
    wanted = to_arrow_schema(as_known(schema, known.names), timezone="UTC")
    for field in wanted:
        at = known.get_field_index(field.name)
        if at < 0:
            raise ConfigError(f"schema: there is no column {field.name}; known are {', '.join(known.names)}")
        if field.type != known.field(at).type:
            raise ConfigError(f"schema: column {field.name} is {field.type}, expected {known.field(at).type}")
    spelled = tuple(schema.names)
    if options.content == CHANGES:
        return ChangesOfTask(wanted, spelled, options)
    return TypedRowMaker(wanted, spelled, options.types, options.is_failfast)


@attrs.frozen
class TypedRowMaker:
    """Rows of `content=metadata`."""

    schema: pa.Schema
    spelled: tuple[str, ...]
    types: frozenset[str]
    is_failfast: bool

    def of_task(self, wanted: LogRange) -> TypedRowMaker:
        """The same for all tasks."""
        return self

    def before(self) -> Iterator[pa.RecordBatch]:
        """No rows but those of records."""
        return iter(())

    def end(self) -> None:
        """Nothing to keep."""

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """Raises ProtocolError for malformed batches and, in FAILFAST mode, for records that cannot be decoded."""
        within = BatchFilter(wanted.begin, wanted.end)
        needed = {one.name: one.type for one in CONTENTS["records"] if one.name in self.schema.names} | NEEDED
        fields = [(name, type) for name, type in needed.items() if name != RETRIES.name]
        rows = Rows(pa.schema(fields), {"cluster_id": wanted.cluster_id})
        made = self.schema if ERROR.name in self.schema.names else self.schema.append(pa.field(ERROR.name, ERROR.type))
        for decoded in decoded_rows(records, within, rows):
            typed = typed_rows(with_retries(decoded, self.schema), made, self.types or None)
            errors = typed.column(ERROR.name).drop_null()
            if self.is_failfast and len(errors):
                raise ProtocolError(str(errors[0]))
            yield typed.select(self.schema.names).rename_columns(self.spelled)


def with_retries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With a column of zeros for the retries, if the schema has it."""
    if RETRIES.name not in schema.names:
        return batch
    return batch.append_column(RETRIES.name, pa.array([0] * batch.num_rows, RETRIES.type))
