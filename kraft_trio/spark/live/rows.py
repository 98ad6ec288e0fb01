"""Turns committed batches of a live quorum into rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError, ProtocolError
from kraft_trio.spark.column_names import as_known
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.byte_source import MemorySource
from kraft_trio.spark.decoding.damage import Damage
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.msgpack_values import WHOLE_VALUE, msgpack_columns
from kraft_trio.spark.decoding.record_rows import record_rows
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.decoding.scan import scan
from kraft_trio.spark.live.columns import RETRIES, live_columns
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import LiveOptions
from kraft_trio.spark.schemas import ERROR, arrow_schema
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE

ROWS_AT_ONCE: Final = 10_000

_ALWAYS_DECODED: Final = ("offset", "batch_offset", "control", "value")


@attrs.frozen
class RowMaker:
    """Makes Arrow record batches with the wanted columns.  Can be pickled."""

    schema: pa.Schema
    spelled: tuple[str, ...]
    """The columns' names as the user writes them."""
    decoded: pa.Schema
    """The columns that are decoded first."""
    from_values: tuple[str, ...]
    """The columns that come from MessagePack values."""
    include_control: bool
    is_failfast: bool

    @classmethod
    def of(cls, options: LiveOptions, schema: StructType) -> RowMaker:
        """Raises ConfigError naming a column that is unknown or has another type."""
        known = arrow_schema(live_columns(options))
        wanted = to_arrow_schema(as_known(schema, known.names), timezone="UTC")
        from_values = []
        for field in wanted:
            at = known.get_field_index(field.name)
            if options.is_msgpack and (at < 0 or (field.name == WHOLE_VALUE and field.type != pa.binary())):
                from_values.append(field.name)
            elif at < 0:
                raise ConfigError(f"schema: there is no column {field.name}; known are {', '.join(known.names)}")
            elif field.type != known.field(at).type:
                raise ConfigError(f"schema: column {field.name} is {field.type}, expected {known.field(at).type}")
        decoded = [field for field in known if field.name in (*wanted.names, *_ALWAYS_DECODED)]
        with_error = pa.schema([*decoded, pa.field(ERROR.name, ERROR.type)])
        spelled = tuple(schema.names)
        return cls(wanted, spelled, with_error, tuple(from_values), options.include_control, options.is_failfast)

    def of_task(self, wanted: LogRange) -> RowMaker:
        """The same for all tasks."""
        return self

    def before(self) -> Iterator[pa.RecordBatch]:
        """No rows but those of records."""
        return iter(())

    def end(self) -> None:
        """Nothing to keep."""

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """The rows of the offsets in the range, some thousands at a time.

        Raises ProtocolError for malformed records and, in FAILFAST mode, for values that do not fit the columns.
        """
        within = BatchFilter(wanted.begin, wanted.end)
        rows = Rows(self.decoded, _constants(wanted))
        for decoded in decoded_rows(records, within, rows, with_control=self.include_control):
            for start in range(0, decoded.num_rows, ROWS_AT_ONCE):
                yield self._finished(decoded.slice(start, ROWS_AT_ONCE))

    def _finished(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Select the wanted columns.  Raises ProtocolError for what could not be decoded."""
        offsets, errors = decoded.column("offset"), decoded.column(ERROR.name)
        if offsets.null_count:
            at = offsets.is_null().index(True).as_py()
            place, error = f"batch at offset {decoded.column('batch_offset')[at]}", str(errors[at])
            raise ProtocolError(error if error.startswith(place) else f"{place}: {error}")
        made = self._made_of_values(decoded, offsets) if self.from_values else {}
        columns = [made[name] if name in made else decoded.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema).rename_columns(self.spelled)

    def _made_of_values(self, decoded: pa.RecordBatch, offsets: pa.Array) -> dict[str, pa.Array]:
        values = decoded.column("value")
        if self.include_control:  # The values of control records are not the application's.
            values = pa.array(
                [
                    None if control else value
                    for control, value in zip(*_lists(decoded, "control", "value"), strict=True)
                ],
                values.type,
            )
        columns, problems = msgpack_columns(values, [self.schema.field(name) for name in self.from_values])
        if problems and self.is_failfast:
            at = min(problems)
            raise ProtocolError(f"offset {offsets[at].as_py()}: {problems[at]} (mode=PERMISSIVE has nulls instead)")
        return dict(zip(self.from_values, columns, strict=True))


def decoded_rows(
    records: bytes, within: BatchFilter, rows: Rows, *, with_control: bool = False
) -> Iterator[pa.RecordBatch]:
    """The records of whole batches as Arrow batches.  Raises ProtocolError for malformed ones."""
    for run in scan(MemorySource("Fetch", records), 0, len(records), Expectation(0, is_exact=False)):
        if isinstance(run, Damage):
            raise ProtocolError(f"records from offset {within.start_offset} on: {run.error}")
        wanted = within.select(run)
        is_control = wanted.headers["attributes"] & CONTROL_ATTRIBUTE != 0
        if is_control.any() and not with_control:
            wanted = wanted.select(np.flatnonzero(~is_control))
        yield from record_rows(wanted, rows, within)


def _constants(wanted: LogRange) -> dict[str, object]:
    return {"cluster_id": wanted.cluster_id, RETRIES.name: 0, "topic": wanted.topic_name, "partition": 0}


def _lists(rows: pa.RecordBatch, *names: str) -> list[list[object]]:
    return [rows.column(name).to_pylist() for name in names]
