"""Committed batches of a live quorum as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.control_records import decode_control_record
from kraft_trio.spark.schemas import RECORD_HEADERS, RECORDS, Column, arrow_schema, spark_schema
from kraft_trio.spark.stream_fetching import LogRange
from kraft_trio.spark.stream_options import LiveOptions, read_live_options
from kraft_trio.storage.batch import Record, decode_records, iter_headers

ROWS_AT_ONCE: Final = 10_000

_OF_DIRECTORIES: Final = frozenset(
    {"directory", "node", "directory_id", "segment", "position", "crc_ok", "size", "error"}
)
LIVE_RECORDS: Final = tuple(column for column in RECORDS if column.name not in _OF_DIRECTORIES)
"""The columns of a live quorum's records."""


def live_columns(options: LiveOptions) -> tuple[Column, ...]:
    return (*LIVE_RECORDS, RECORD_HEADERS) if options.include_headers else LIVE_RECORDS


def live_schema(given: Mapping[str, str]) -> str:
    """The columns where the user gives no schema.  Raises ConfigError."""
    return spark_schema(live_columns(read_live_options(given)))


@attrs.frozen
class RowMaker:
    """Makes Arrow's record batches of the wanted columns.  Can be pickled."""

    schema: pa.Schema
    include_control: bool

    @classmethod
    def of(cls, options: LiveOptions, schema: StructType) -> RowMaker:
        """Raises ConfigError, naming the column, for one that this source does not have, or of another type."""
        known = arrow_schema(live_columns(options))
        wanted = to_arrow_schema(schema, timezone="UTC")
        for field in wanted:
            at = known.get_field_index(field.name)
            if at < 0:
                raise ConfigError(f"schema: there is no column {field.name}; known are {', '.join(known.names)}")
            if field.type != known.field(at).type:
                raise ConfigError(f"schema: column {field.name} is {field.type}, expected {known.field(at).type}")
        return cls(wanted, options.include_control)

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """The rows of the offsets in the range.  Raises ProtocolError for records that are not as the format says."""
        rows: list[dict[str, Any]] = []
        for position, header in iter_headers(records):
            if header.is_control and not self.include_control:
                continue
            for record in decode_records(records, position, header):
                if wanted.begin <= record.offset < wanted.end:
                    rows.append(
                        {
                            "cluster_id": wanted.cluster_id,
                            "batch_offset": header.base_offset,
                            "offset": record.offset,
                            "epoch": header.leader_epoch,
                            "timestamp": record.timestamp_ms * 1000,
                            "control": header.is_control,
                            "control_type": _control_type(record) if header.is_control else None,
                            "key": record.key,
                            "value": record.value,
                            "headers": [{"name": name, "value": value} for name, value in record.headers],
                        }
                    )
            if len(rows) >= ROWS_AT_ONCE:
                yield pa.RecordBatch.from_pylist(rows, schema=self.schema)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=self.schema)


def _control_type(record: Record) -> str | None:
    if record.key is None or record.value is None:
        return None
    decoded = decode_control_record(record.key, record.value)
    return None if decoded is None else type(decoded).__name__.removesuffix("Record")
