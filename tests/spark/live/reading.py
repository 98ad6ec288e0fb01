"""A stream reader without Spark around it: its methods called as Spark calls them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.cli import run as run_command_line
from kraft_trio.spark.live import reader as stream_reader
from kraft_trio.spark.live.columns import live_columns
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.spark.live.reader import KraftStreamReader, make_stream_reader
from kraft_trio.spark.schemas import arrow_schema
from kraft_trio.storage.batches.batch import decode_records, iter_headers

Offset = dict[str, Any]
Rows = list[tuple[int, bytes | None]]
"""Offset and value."""


def make_reader(quorum: Quorum, schema: StructType | None = None, **options: str) -> KraftStreamReader:
    """`options` by their names, `__` for a dot."""
    return make_reader_of(quorum.bootstrap_servers, schema, **{"timeoutMs": "20000", **options})


def make_reader_of(bootstrap_servers: str, schema: StructType | None = None, **options: str) -> KraftStreamReader:
    given = {name.replace("__", "."): text for name, text in options.items()}
    given = {"bootstrapControllers": bootstrap_servers, **given}
    if schema is None:
        schema = from_arrow_schema(arrow_schema(live_columns(read_live_options(given))))
    reader = make_stream_reader(given, schema)
    assert isinstance(reader, KraftStreamReader)
    return reader


def latest_once(reader: KraftStreamReader, start: Offset, most: int | None = None) -> Offset:
    """Ask as Spark does for a micro-batch, which may bring no news of the log."""
    limit: ReadLimit = reader.getDefaultReadLimit() if most is None else ReadMaxRows(most)
    offset: Offset = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return offset


def latest(reader: KraftStreamReader, start: Offset, most: int | None = None) -> Offset:
    """Ask again while the reader has no news of the log, because the leader has not answered soon enough."""

    def told() -> Offset | None:
        no_news: list[logging.LogRecord] = []

        def note(record: logging.LogRecord) -> bool:
            if record.msg.startswith("no news of the log"):
                no_news.append(record)
            return True

        stream_reader.log.addFilter(note)
        try:
            offset = latest_once(reader, start, most)
        finally:
            stream_reader.log.removeFilter(note)
        return None if no_news else offset

    return wait_until("news of the log", told)


def batches(reader: KraftStreamReader, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:
    for partition in reader.partitions(start, end):
        yield from reader.read(partition)


def rows(reader: KraftStreamReader, start: Offset, end: Offset) -> Rows:
    return [(row["offset"], row["value"]) for batch in batches(reader, start, end) for row in batch.to_pylist()]


def committed_rows(node: NodeProcess) -> Rows:
    """The application's records in the log of a node that has all of it, and all is committed."""
    log = node.log_bytes()
    return [
        (record.offset, record.value)
        for position, header in iter_headers(log)
        if not header.is_control
        for record in decode_records(log, position, header)
    ]


def command(*arguments: str) -> str:
    """Run a `kraft` command that succeeds; what it prints."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
        assert run_command_line([*arguments]) == 0, output.getvalue()
    return output.getvalue()
