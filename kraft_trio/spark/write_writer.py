"""`write.format("kraft")` and `writeStream.format("kraft")`: append rows to a quorum's log with Produce.

Delivery is at least once.  Within one attempt of a task the producer is idempotent, so a repeated batch occurs once. A
failed attempt leaves its committed rows in the log, and the next attempt starts over.  So does a micro-batch that a
streaming query repeats after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import attrs
import pyarrow as pa
import trio
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kraft_trio.client.log_client import LogClient, split_into_batches
from kraft_trio.errors import ConfigError, RecordTooLargeError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.stream_quorum import QuorumLeader, ask_leader
from kraft_trio.spark.write_options import WriteOptions, read_write_options
from kraft_trio.spark.write_rows import RecordMaker

log = logging.getLogger(__name__)


@attrs.frozen
class Appended(WriterCommitMessage):
    """The rows that one task has appended; inclusive offsets, None without rows."""

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def and_then(self, offsets: tuple[int, ...]) -> Appended:
        first = offsets[0] if self.first_offset is None else self.first_offset
        return Appended(self.records + len(offsets), first, offsets[-1])


def make_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Raises ConfigError for unusable options, columns and save modes."""
    return KraftWriter(*_checked(options, schema, overwrite))


def make_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """Raises ConfigError for unusable options, columns and output modes."""
    return KraftStreamWriter(*_checked(options, schema, overwrite))


def _checked(options: Mapping[str, str], schema: StructType, overwrite: bool) -> tuple[WriteOptions, RecordMaker]:
    if overwrite:
        raise ConfigError("mode: overwrite or complete, expected append: nothing in a log can be replaced")
    read = read_write_options(options)
    return read, RecordMaker.of(schema, is_msgpack=read.is_msgpack)


class KraftWriter(DataSourceArrowWriter):
    """Can be pickled; `write` runs in tasks, everything else in the driver."""

    def __init__(self, options: WriteOptions, maker: RecordMaker) -> None:
        self._options = options
        self._maker = maker

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return trio.run(append_all, self._options, self._maker, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell("appended", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell("given up; appended before", messages)


class KraftStreamWriter(DataSourceStreamArrowWriter):
    """Can be pickled; `write` runs in tasks, everything else in the driver."""

    def __init__(self, options: WriteOptions, maker: RecordMaker) -> None:
        self._options = options
        self._maker = maker

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return trio.run(append_all, self._options, self._maker, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _tell(f"micro-batch {batchId}: appended", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _tell(f"micro-batch {batchId}: given up; appended before", messages)


async def append_all(options: WriteOptions, maker: RecordMaker, batches: Iterator[pa.RecordBatch]) -> Appended:
    """Append the rows of one task in order, and wait until they are committed.

    Nothing else runs in the event loop, so it may stand still while Spark produces rows.  Raises like
    `LogClient.produce`, with `timeout_ms` for each batch; batches before a failing one are in the log.
    """
    appended = Appended()
    rows = next(batches, None)
    if rows is None:
        return appended

    async def where(leader: QuorumLeader) -> tuple[str, tuple[Endpoint, ...]]:
        return leader.topic_name, leader.nodes

    address = options.address
    topic_name, nodes = await ask_leader(address, where)
    async with LogClient(
        address.known_also_at(nodes).bootstrap,
        topic_name=topic_name,
        client_id="kraft-spark",
        request_timeout_ms=address.request_timeout_ms,
        max_batch_bytes=options.max_batch_bytes,
    ) as client:
        while rows is not None:
            records = maker.records_of(rows)
            try:
                for batch in split_into_batches(records, options.max_batch_bytes):
                    # One at a time, because each has the whole time limit to commit.
                    appended = appended.and_then(await client.produce(batch, address.timeout_ms))
            except RecordTooLargeError as error:
                raise RecordTooLargeError(
                    f"of the rows of this task from row {appended.records} on: {error} (maxBatchBytes, and the "
                    "quorum's message.max.bytes)"
                ) from error
            rows = next(batches, None)
    return appended


def _tell(what: str, messages: list[WriterCommitMessage | None]) -> None:
    tasks = [message for message in messages if isinstance(message, Appended)]
    log.info("%s %d records in %d tasks", what, sum(task.records for task in tasks), len(tasks))
