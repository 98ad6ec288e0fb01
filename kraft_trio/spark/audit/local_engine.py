"""DuckDB as the engine of an audit: in this process, without Java, for the directories of replicas."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot

from kraft_trio.spark.audit.check import View
from kraft_trio.spark.audit.choice import SHARE_OF_MEMORY
from kraft_trio.spark.audit.engine import Row
from kraft_trio.spark.audit.metadata_tables import METADATA_TABLES, metadata_rows, with_metadata
from kraft_trio.spark.audit.tables import (
    LOG_TABLES,
    NO_LIMITS,
    Limits,
    columns_of,
    content_of,
    table_of_limits,
    table_of_replicas,
)
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.directories.pieces import plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, find_replicas
from kraft_trio.spark.schemas import arrow_schema
from kraft_trio.system.machine import memory_bytes

PIECE_BYTES: Final = 64 * 1024 * 1024

Raw = Mapping[str, Callable[[], pa.RecordBatchReader]]
"""The raw tables by name."""


def decode_directories(paths: Sequence[str], limits: Limits = NO_LIMITS, *, is_metadata_wanted: bool = True) -> Raw:
    """The raw tables of replicas' directories; those of metadata if it is wanted and Kafka's are among them.

    Raises ConfigError if there is no replica.
    """
    replicas = find_replicas(paths, allow_mixed_clusters=True)
    kafkas = with_metadata(replicas) if is_metadata_wanted else []
    return {
        **{name: _decoder(replicas, name) for name in LOG_TABLES},
        **{name: _metadata_decoder(kafkas, name) for name in METADATA_TABLES if kafkas},
        "replicas": table_of_replicas(replicas).to_reader,
        "limits": table_of_limits(limits).to_reader,
    }


def _decoder(replicas: Sequence[Replica], table: str) -> Callable[[], pa.RecordBatchReader]:
    schema = arrow_schema(columns_of(table))
    plan = ReadPlan(content_of(table), schema, BatchFilter(), is_fail_fast=False)

    def batches() -> Iterator[pa.RecordBatch]:
        return read_pieces(plan_pieces(replicas, plan.content, plan.wanted, PIECE_BYTES), plan)

    return lambda: pa.RecordBatchReader.from_batches(schema, batches())


def _metadata_decoder(replicas: Sequence[Replica], table: str) -> Callable[[], pa.RecordBatchReader]:
    schema = arrow_schema(METADATA_TABLES[table])

    def batches() -> Iterator[pa.RecordBatch]:
        return (batch for replica in replicas for batch in metadata_rows(table, replica))

    return lambda: pa.RecordBatchReader.from_batches(schema, batches())


class LocalEngine:
    """See `Engine`."""

    def __init__(self, raw: Raw, folder: str) -> None:
        """The tables go below `folder`, a directory, which the caller removes.

        DuckDB compresses tables in files, but not those in memory, where each batch would repeat its directory's name.
        """
        self._raw = raw
        settings: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": folder,
            "memory_limit": f"{int(memory_bytes() * SHARE_OF_MEMORY) >> 20}MiB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._database = duckdb.connect(f"{folder}/audit-{uuid.uuid4().hex}.duckdb", config=settings)
        # It reads nothing but what it is given.
        self._database.execute("set enable_external_access = false")
        self._database.execute(files(__package__).joinpath("duckdb_macros.sql").read_text(encoding="utf-8"))

    def close(self) -> None:
        self._database.close()

    @property
    def raw(self) -> Sequence[str]:
        return tuple(self._raw)

    def decode(self, name: str) -> None:
        """Raises what decoding raises."""
        failures: list[Exception] = []
        with self._raw[name]() as decoded:
            watched = pa.RecordBatchReader.from_batches(decoded.schema, _watched(decoded, failures))
            self._database.register("decoded", watched)
            try:
                self._database.execute(f"create table {name} as select * from decoded")
            except duckdb.Error:
                if failures:
                    # DuckDB tells it as a text, with its traceback.
                    raise failures[0] from None
                raise
            self._database.unregister("decoded")

    def add(self, view: View) -> None:
        kind = "table" if view.is_stored else "view"
        self._database.execute(f"create {kind} {view.name} as {translated(view.sql)}")

    def rows(self, sql: str, **arguments: Any) -> list[Row]:
        with self._database.cursor() as cursor:
            cursor.execute(translated(sql), arguments or None)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _watched(batches: Iterable[pa.RecordBatch], failures: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The batches; notes why they end early."""
    try:
        yield from batches
    except Exception as error:
        failures.append(error)
        raise


@cache
def translated(sql: str) -> str:
    """A query of Spark's dialect in DuckDB's.  Hints, which tell Spark how to join, are left out."""
    [text] = sqlglot.transpile(sql, read="spark", write="duckdb", unsupported_level=sqlglot.ErrorLevel.IGNORE)
    return text
