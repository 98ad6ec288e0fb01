"""`write.format("kraft")` and `writeStream.format("kraft")`: append rows to a quorum's log with Produce.

All attempts at a partition of a write have one identity, by which the log recognizes what another attempt has appended
(`identity.py`).  So each row is in the log once, whatever is killed and repeated meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import trio
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.quorum import QuorumLeader, ask_leader
from kraft_trio.spark.writing.appending import PartitionAppender
from kraft_trio.spark.writing.batches import batches_of, in_one_order
from kraft_trio.spark.writing.completeness import check_is_complete
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended, write_offsets
from kraft_trio.spark.writing.options import WriteOptions, read_stream_write_options, read_write_options
from kraft_trio.spark.writing.rows import RecordMaker
from kraft_trio.storage.batches.batch import NewRecord

log = logging.getLogger(__name__)


def make_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """Raises ConfigError for unusable options, columns and save modes."""
    _check_appends(overwrite)
    read = read_write_options(options)
    return KraftWriter(read, RecordMaker.of(schema, is_msgpack=read.is_msgpack))


def make_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """Raises ConfigError for unusable options, columns and output modes."""
    _check_appends(overwrite)
    read = read_stream_write_options(options)
    return KraftStreamWriter(read, RecordMaker.of(schema, is_msgpack=read.is_msgpack))


def _check_appends(overwrite: bool) -> None:
    if overwrite:
        raise ConfigError("mode: overwrite or complete, expected append: nothing in a log can be replaced")


class KraftWriter(DataSourceArrowWriter):
    """Can be pickled; `write` runs in tasks, everything else in the driver."""

    def __init__(self, options: WriteOptions, maker: RecordMaker) -> None:
        self._options = options
        self._maker = maker
        self._write = options.named_write or Write.nameless()
        """Made in the driver: all attempts at all tasks of this write have it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write = self._write if self._options.is_exactly_once else Write.nameless()
        of = PartitionWrite(write, _context().partitionId())
        return trio.run(append_all, self._options, self._maker, of, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        name = self._write.application if self._options.named_write is None else str(self._write.version)
        _finish(str(self._write), name, self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell(f"{self._write}: given up; appended before", messages)


class KraftStreamWriter(DataSourceStreamArrowWriter):
    """Can be pickled; `write` runs in tasks, everything else in the driver."""

    def __init__(self, options: WriteOptions, maker: RecordMaker) -> None:
        self._options = options
        self._maker = maker

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        is_exactly_once = self._options.is_exactly_once
        write = Write.of_micro_batch(context.getLocalProperty) if is_exactly_once else Write.nameless()
        return trio.run(append_all, self._options, self._maker, PartitionWrite(write, context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _finish(f"micro-batch {batchId}", str(batchId), self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _tell(f"micro-batch {batchId}: given up; appended before", messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a writer's `write` runs in a task of Spark"
    return context


async def append_all(
    options: WriteOptions, maker: RecordMaker, of: PartitionWrite, batches: Iterable[pa.RecordBatch]
) -> Appended:
    """Append the rows of one task in order, and wait until they are committed.

    Nothing else runs in the event loop, so it may be blocked while Spark produces rows.  Raises like
    `PartitionAppender.append`; batches before a failing one are in the log.
    """
    appended = Appended(of)
    rows: Iterator[list[NewRecord]] = map(maker.records_of, batches)
    divided = batches_of(in_one_order(rows) if options.sorts_rows else rows, options.max_batch_bytes)
    batch = next(divided, None)
    if batch is None:
        return appended

    async def where(leader: QuorumLeader) -> tuple[str, tuple[Endpoint, ...]]:
        return leader.topic_name, leader.nodes

    topic_name, nodes = await ask_leader(options.address, where)
    async with PartitionAppender(options.address.known_also_at(nodes), topic_name, of) as appender:
        while batch is not None:
            placed = await appender.append(batch)
            appended = appended.and_then(len(batch.records), placed.base_offset, is_repeated=placed.is_repeated)
            batch = next(divided, None)
    return appended


def _finish(what: str, name: str, options: WriteOptions, messages: list[WriterCommitMessage | None]) -> None:
    """Check that the log has the rows of a write and no others of it, and tell where they are, in a file `name`."""
    tasks = _tell(f"{what}: appended", messages)
    if not tasks:
        return
    if options.is_exactly_once:
        trio.run(check_is_complete, options.address, tasks)
    if options.offsets_path:
        write_offsets(options.offsets_path, name, tasks)


def _tell(what: str, messages: list[WriterCommitMessage | None]) -> list[Appended]:
    tasks = [message for message in messages if isinstance(message, Appended)]
    records, repeated = sum(task.records for task in tasks), sum(task.repeated for task in tasks)
    log.info("%s %d records in %d tasks, %d of them were there already", what, records, len(tasks), repeated)
    return tasks
