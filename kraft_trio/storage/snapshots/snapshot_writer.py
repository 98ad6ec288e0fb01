"""Writes a snapshot as a stream, with one batch in memory, and lets other tasks run between batches (KIP-630).

The same id and the same records give the same bytes on every replica (invariant EqualStates).  A batch depends on the
records alone, and its timestamp is that of the last record in the log that the snapshot covers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, islice, pairwise
from typing import Final, cast

import trio

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import NewRecord, RecordHeaders, encode_control_batch
from kraft_trio.storage.batches.column_batches import encode_records, encode_values
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.batches.large_record import PIECE_BYTES, encode_large_record
from kraft_trio.storage.disk.disk import Buffer, Disk, join
from kraft_trio.storage.disk.part_file import SPARED_BYTES, PartFile, UnfinishedSnapshot
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, SnapshotSummary

CHECKPOINT_MODE: Final = 0o400
"""Read-only: a finished snapshot never changes."""

SNAPSHOT_BATCH_BYTES: Final = 64 * 1024
"""The size of a batch; a larger record is a batch of its own.  Encoding a batch blocks the event loop for 0.1 ms, or
for up to 2 ms if each record is encoded separately."""

CONSIDERATE_BYTES: Final = 8 * 1024 * 1024
"""Whenever the log has grown, the next bytes, up to this number, are written in small steps.  That takes some tens of
milliseconds."""
MAX_PAUSE_S: Final = 0.005

RECORDS_AT_A_TIME: Final = 512
"""The number of records requested from the application before any is encoded."""

_RECORD_OVERHEAD_BYTES: Final = 32
"""An upper bound for the lengths and deltas of a record."""


def first_records(state: ControlState) -> list[ControlRecord]:
    """Return a snapshot's first records.  Raises ValueError unless voters and kraft.version 1 come together."""
    if (state.voters is None) != (state.kraft_version == 0):
        raise ValueError(
            f"voters {state.voters} at kraft.version {state.kraft_version}: expected from 1 on, and only then"
        )
    header = SnapshotHeader(state.last_contained_log_timestamp_ms, state.producers, state.removed_voters)
    records: list[ControlRecord] = [header]
    if state.voters is not None:
        records += [KRaftVersion(state.kraft_version), VotersRecord(state.voters, state.target_voters)]
    return records


class SnapshotWriter(UnfinishedSnapshot):
    """Writes one snapshot into a partition's directory.  The snapshot exists once `finish` returns.

    One task creates it and uses it in `async with`, or ends it by `finish` or `abandon`.  Without `finish`, also after
    a cancellation, no snapshot is left.  The caller makes sure that the id may be used (see `protocol.snapshot_ids`).
    Every method may raise StorageFailure, or DiskFullError; then only `abandon` may follow.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: OffsetAndEpoch,
        state: ControlState,
        *,
        name: str | None = None,
        batch_bytes: int = SNAPSHOT_BATCH_BYTES,
        log_end_offset: Callable[[], int] = lambda: 0,
        spared_bytes: int = SPARED_BYTES,
    ) -> None:
        """Create `<name>.part`.  `name` defaults to that of a node's snapshot, `<id>.checkpoint`.

        `state` is the state at the end of the snapshot.  For `spared_bytes` see PartFile.

        While `log_end_offset` changes, other tasks wait for commits.  Then the writer syncs smaller parts, and pauses
        after each batch for as long as encoding it took.
        """
        self.snapshot_id = snapshot_id
        self._state = state
        self._batch_bytes = batch_bytes
        self._pending: list[NewRecord | bytes] = []
        self._pending_sizes: list[int] = []
        """The exact sizes of plain values; upper bounds for other records."""
        self._pending_bytes = 0
        """An upper bound, with each record's overhead."""
        self._are_values = True
        """Whether all pending records are plain values."""
        self._batch_count = 0
        self._record_count = 0
        self._next_offset = 0
        self._log_end_offset = log_end_offset
        self._seen_log_end_offset = log_end_offset()
        self._considerate_up_to = 0
        """Of the file, in bytes."""
        self._resumed_at_s = math.inf
        """When the last batch was written, and others had had their turn."""
        records = first_records(state)
        super().__init__(join(directory, checkpoint_name(snapshot_id) if name is None else name))
        try:
            self._part = PartFile(disk, self.path, mode=CHECKPOINT_MODE, spared_bytes=spared_bytes)
        except OSError as error:
            raise self._failure(error) from error
        self._first = records

    @property
    def size_in_bytes(self) -> int:
        """Bytes written so far."""
        return self._part.size()

    async def append(self, records: Iterable[NewRecord | bytes]) -> None:
        """Add the application's records, in order.  `bytes` are a record with only a value.

        Checkpoints after each full batch.  Raises TypeError for other objects, and for keys or values that are not
        bytes.
        """
        remaining = iter(records)
        while some := list(islice(remaining, RECORDS_AT_A_TIME)):
            for run in _runs_of_one_time(some):
                if self._pending and not _may_share_a_batch(self._pending[-1], run[0]):
                    await self._write_pending()
                await self._append(run)

    async def _append(self, records: list[NewRecord | bytes]) -> None:
        """Take a number of steps that grows with the batches, not with the records."""
        are_values = list(map(type, records)).count(bytes) == len(records)
        sizes = list(map(len, cast("list[bytes]", records))) if are_values else self._sizes(records)
        ends = list(accumulate(sizes, initial=0))

        def bytes_before(index: int) -> int:
            return ends[index] + _RECORD_OVERHEAD_BYTES * index

        start = 0
        while start < len(records):
            room = self._batch_bytes - self._pending_bytes
            stop = bisect_right(range(len(ends)), bytes_before(start) + room, start, key=bytes_before) - 1
            stop = max(stop, start if self._pending else start + 1)
            self._are_values = are_values and (self._are_values or not self._pending)
            self._pending += records[start:stop]
            self._pending_sizes += sizes[start:stop]
            self._pending_bytes += bytes_before(stop) - bytes_before(start)
            start = stop
            if start < len(records):
                await self._write_pending()

    def _sizes(self, records: list[NewRecord | bytes]) -> list[int]:
        try:
            return [
                len(record.value or b"")
                + len(record.key or b"")
                + (_headers_bound(record.headers) if record.headers else 0)
                for record in _as_records(records)
            ]
        except (AttributeError, TypeError):
            _check_types(records)
            raise

    async def finish(self) -> SnapshotSummary:
        """Write the rest and the footer, and make the snapshot durable under its name.

        If the caller is cancelled while the device syncs, the snapshot exists; if it is cancelled before, it does not.
        """
        await self._write_pending()
        await self._write_first()
        footer = self._control_batch([SnapshotFooter()])
        try:
            await self._part.append(footer)
            size_in_bytes = self._part.size()
            await self._part.finish()
        except OSError as error:
            raise self._failure(error) from error
        self._ended = True
        return SnapshotSummary(self.snapshot_id, size_in_bytes, self._batch_count, self._record_count, self._state)

    async def _write_first(self) -> None:
        first, self._first = self._first, []
        if first:
            await self._write(self._control_batch(first))

    async def _write_pending(self) -> None:
        if not self._pending:
            return
        await self._write_first()
        batch = await self._encode()
        self._next_offset += len(self._pending)
        self._record_count += len(self._pending)
        self._batch_count += 1
        self._pending, self._pending_sizes, self._pending_bytes = [], [], 0
        await self._write(*batch)

    async def _encode(self) -> list[Buffer]:
        """The batch of all pending records: one piece, or several if a single record is large."""
        timestamp_ms, epoch = self._state.last_contained_log_timestamp_ms, self.snapshot_id.epoch
        fields = {"timestamp_ms": timestamp_ms, "base_offset": self._next_offset, "leader_epoch": epoch}
        try:
            if len(self._pending) == 1 and self._pending_bytes > PIECE_BYTES:
                [record] = _as_records(self._pending)
                return [*await encode_large_record(record, **fields)]
            if self._are_values:
                return [encode_values(cast("list[bytes]", self._pending), self._pending_sizes, **fields)]
            return [encode_records(_as_records(self._pending), **fields)]
        except TypeError:
            _check_types(self._pending)
            raise

    def _control_batch(self, records: list[ControlRecord]) -> bytes:
        batch = encode_control_batch(
            records,
            timestamp_ms=self._state.last_contained_log_timestamp_ms,
            base_offset=self._next_offset,
            leader_epoch=self.snapshot_id.epoch,
        )
        self._next_offset += len(records)
        self._batch_count += 1
        return batch

    async def _write(self, *pieces: Buffer) -> None:
        end_offset = self._log_end_offset()
        if end_offset != self._seen_log_end_offset:
            self._seen_log_end_offset = end_offset
            self._considerate_up_to = self._part.size() + CONSIDERATE_BYTES
        self._part.is_considerate = self._part.size() < self._considerate_up_to
        took_s = max(0.0, trio.current_time() - self._resumed_at_s)
        try:
            for piece in pieces:
                await self._part.append(piece)
        except OSError as error:
            raise self._failure(error) from error
        if self._part.is_considerate:
            await trio.sleep(min(took_s, MAX_PAUSE_S))
        self._resumed_at_s = trio.current_time()


def _runs_of_one_time(records: list[NewRecord | bytes]) -> list[list[NewRecord | bytes]]:
    """Cut between records that `_may_share_a_batch` keeps apart."""
    if not any(isinstance(record, NewRecord) and record.key is None for record in records):
        return [records]
    cuts = [index for index in range(1, len(records)) if not _may_share_a_batch(records[index - 1], records[index])]
    return [records[start:stop] for start, stop in pairwise((0, *cuts, len(records)))]


def _may_share_a_batch(record: NewRecord | bytes, following: NewRecord | bytes) -> bool:
    """Whether two records may be in one batch.  Kafka reads no batch with two timestamps, and no record with a key."""
    times_ms = []
    for one in (record, following):
        if isinstance(one, NewRecord) and one.key is not None:
            return True
        times_ms.append(one.timestamp_ms if isinstance(one, NewRecord) else None)
    return times_ms[0] == times_ms[1]


def _as_records(records: list[NewRecord | bytes]) -> list[NewRecord]:
    if list(map(type, records)).count(NewRecord) == len(records):
        return cast("list[NewRecord]", records)
    return [NewRecord(record) if isinstance(record, bytes) else record for record in records]


def _headers_bound(headers: RecordHeaders) -> int:
    """Return an upper bound of the bytes that the headers take."""
    return sum(len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD_BYTES for name, value in headers)


def _check_types(records: list[NewRecord | bytes]) -> None:
    """Raise TypeError for the first item that is not a record, or whose key or value is not bytes."""
    for record in records:
        if isinstance(record, bytes):
            continue
        if not isinstance(record, NewRecord):
            raise TypeError(
                f"record of a snapshot: {type(record).__name__} {record!r:.80}, expected NewRecord or bytes"
            )
        for name, field in (("key", record.key), ("value", record.value)):
            if not isinstance(field, bytes | bytearray | memoryview | None):
                raise TypeError(
                    f"{name} of a record of a snapshot: {type(field).__name__} {field!r:.80}, expected bytes or None"
                )
