"""A replica's records up to a moment: those of a snapshot, and then those of the log behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import attrs
import pyarrow as pa
import pyarrow.compute

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.reconciliation import BOOTSTRAP_SNAPSHOT_ID
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.directories.files import files_of
from kraft_trio.spark.directories.pieces import Piece, plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, StoredFile
from kraft_trio.spark.schemas import ERROR
from kraft_trio.storage.batches.batch import decode_control_batch, peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.batches.control_records import SnapshotHeader

NEEDED = {
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    ERROR.name: ERROR.type,
}
"""The columns that a schema for `records_as_of` must have."""


@attrs.frozen
class AsOf:
    """A moment: an offset, a time, or both, which means the earlier one.  Without either, the end of the log."""

    offset: int = NO_END
    """Exclusive."""
    timestamp_us: int | None = None
    """Inclusive, in microseconds since 1970.  The records end at the first one of the log with a later timestamp."""

    def __str__(self) -> str:
        return "latest" if self.offset == NO_END else str(self.offset)


@attrs.frozen
class Base:
    """The snapshot that a state begins with."""

    id: OffsetAndEpoch
    file: StoredFile


def base_of(replica: Replica, as_of: AsOf) -> Base | None:
    """The newest snapshot at or below the moment.

    A node does not apply the records of the one that it was formatted with: the first leader writes them into the log.
    """
    for id, file in sorted(replica.snapshots, key=lambda one: one[0], reverse=True):
        if id != BOOTSTRAP_SNAPSHOT_ID and id.offset <= as_of.offset and _is_at_or_before(file, as_of.timestamp_us):
            return Base(id, file)
    return None


def _is_at_or_before(file: StoredFile, timestamp_us: int | None) -> bool:
    """Whether the last record that a snapshot covers is not later.  An unreadable one is: reading it says why."""
    if timestamp_us is None:
        return True
    try:
        with closing(files_of(file.path).open(file.path)) as opened:
            start = opened.read(HEADER_BYTES)
            header = peek_header(start, 0)
            batch = start + opened.read(header.size_in_bytes - len(start))
        records = [record for _, record in decode_control_batch(batch, 0, header)]
    except (OSError, ProtocolError):
        return False
    return any(
        isinstance(record, SnapshotHeader) and record.last_contained_log_timestamp_ms * 1000 <= timestamp_us
        for record in records
    )


def snapshot_records(replica: Replica, base: Base, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of a snapshot.  Their offsets are null: the log has none of them."""
    only = attrs.evolve(replica, snapshots=((base.id, base.file),), error=None)
    plan = ReadPlan("snapshot-records", schema, BatchFilter(), False)
    for batch in read_pieces(_pieces(only, "snapshot-records", BatchFilter()), plan):
        at = schema.get_field_index("offset")
        yield batch.set_column(at, schema.field(at), pa.nulls(batch.num_rows, pa.int64()))


def log_records(replica: Replica, start: int, as_of: AsOf, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of the log from an offset (inclusive) up to the moment, with what is damaged among them."""
    wanted = BatchFilter(start, as_of.offset)
    for batch in read_pieces(_pieces(replica, "records", wanted), ReadPlan("records", schema, wanted, False)):
        if as_of.timestamp_us is None:
            yield batch
            continue
        later = pa.compute.greater(batch.column("timestamp").cast(pa.int64()), as_of.timestamp_us)
        first = pa.compute.index(pa.compute.fill_null(later, False), pa.scalar(True)).as_py()
        yield batch if first < 0 else batch.slice(0, first)
        if first >= 0:
            return


def what_is_missing(replica: Replica, as_of: AsOf, base: Base | None, end: int) -> str | None:
    """Why the state is not that of the moment; `end` is after the last record that was found in the log."""
    covered = 0 if base is None else base.id.offset
    begins = replica.segments[0][0] if replica.segments else covered
    what = "no snapshot" if base is None else f"the newest snapshot at or below it ends at {covered}"
    if begins > covered and as_of.offset > covered:
        return f"the state as of offset {as_of} is incomplete: {what}, and the log begins at {begins}"
    end = max(end, covered)
    if as_of.offset != NO_END and as_of.timestamp_us is None and end < as_of.offset:
        return f"the state is that of offset {end}: the log ends there, before asOfOffset={as_of}"
    return None


def _pieces(replica: Replica, content: str, wanted: BatchFilter) -> Iterator[Piece]:
    return plan_pieces([replica], content, wanted, NO_END)
