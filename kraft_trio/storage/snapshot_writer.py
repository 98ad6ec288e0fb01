"""Writing a snapshot as a stream: one batch in memory, whatever its size, and the event loop free in between (KIP-630).

The same id and the same records give the same bytes on every replica (invariant 19): what a batch holds depends on the
records alone, and its timestamp is that of the last record in the log that the snapshot covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Final

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.control_records import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batch import NewRecord, encode_batch, encode_control_batch
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.part_file import PartFile
from kraft_trio.storage.partition_files import checkpoint_name
from kraft_trio.storage.snapshot_reader import ControlState, SnapshotSummary

CHECKPOINT_MODE: Final = 0o400
"""A snapshot never changes once it is there."""

SNAPSHOT_BATCH_BYTES: Final = 64 * 1024
"""Records are gathered up to this size; a larger one is a batch of its own.  Encoding one takes about a millisecond, in
which nothing else runs."""

_RECORD_OVERHEAD_BYTES: Final = 32
"""More than the lengths and deltas of a record take."""


def first_records(state: ControlState) -> list[ControlRecord]:
    """What a snapshot begins with.  Raises ValueError for voters without kraft.version 1, or the other way round."""
    if (state.voters is None) != (state.kraft_version == 0):
        raise ValueError(f"voters {state.voters} at kraft.version {state.kraft_version}: expected from 1 on, and then")
    records: list[ControlRecord] = [SnapshotHeader(state.last_contained_log_timestamp_ms, state.producers)]
    if state.voters is not None:
        records += [KRaftVersion(state.kraft_version), VotersRecord(state.voters)]
    return records


class SnapshotWriter:
    """Writes one snapshot of a partition's directory; it is there once `finish` returns, and not before.

    Made and used by one task, as `async with` or ended by `finish` or `abandon`: left without `finish`, also by a
    cancellation, there is no snapshot.  Whether the id may be used is the caller's to know (see
    `protocol.snapshot_ids`).  Every method may raise StorageFailure, after which only `abandon` is left.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: OffsetAndEpoch,
        state: ControlState,
        *,
        batch_bytes: int = SNAPSHOT_BATCH_BYTES,
    ) -> None:
        """Begin `<id>.checkpoint.part`; `state` is what held at the end of the snapshot."""
        self.snapshot_id = snapshot_id
        self._state = state
        self._batch_bytes = batch_bytes
        self._pending: list[NewRecord] = []
        self._pending_bytes = 0
        self._batch_count = 0
        self._record_count = 0
        self._next_offset = 0
        self._ended = False
        records = first_records(state)
        self._path = join(directory, checkpoint_name(snapshot_id))
        try:
            self._part = PartFile(disk, self._path, mode=CHECKPOINT_MODE)
        except OSError as error:
            raise self._failure(error) from error
        self._first = records

    @property
    def size_in_bytes(self) -> int:
        """Bytes written so far."""
        return self._part.size()

    async def append(self, records: Iterable[NewRecord]) -> None:
        """Add records of the application, in order, to what is written.  A checkpoint for every batch that is full."""
        for record in records:
            value = record.value
            if value is not None and record.key is None and not record.headers:
                size = len(value) + _RECORD_OVERHEAD_BYTES
            else:
                size = _size_bound(record)
            if self._pending and self._pending_bytes + size > self._batch_bytes:
                await self._write_pending()
            self._pending.append(record)
            self._pending_bytes += size

    async def finish(self) -> SnapshotSummary:
        """Write what is left and the footer, and make the snapshot durable under its name.

        A caller that is cancelled while the device works has the snapshot; one that is cancelled before has not.
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

    async def abandon(self) -> None:
        """Give it up, leaving no snapshot.  Does nothing after `finish`, or twice."""
        if not self._ended:
            self._ended = True
            await self._part.abandon()

    async def __aenter__(self) -> SnapshotWriter:
        await self._part.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.abandon()
        await self._part.__aexit__(kind, error, traceback)

    async def _write_first(self) -> None:
        first, self._first = self._first, []
        if first:
            await self._write(self._control_batch(first))

    async def _write_pending(self) -> None:
        if not self._pending:
            return
        await self._write_first()
        batch = encode_batch(
            self._pending,
            timestamp_ms=self._state.last_contained_log_timestamp_ms,
            base_offset=self._next_offset,
            leader_epoch=self.snapshot_id.epoch,
        )
        self._next_offset += len(self._pending)
        self._record_count += len(self._pending)
        self._batch_count += 1
        self._pending = []
        self._pending_bytes = 0
        await self._write(batch)

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

    async def _write(self, batch: bytes) -> None:
        try:
            await self._part.append(batch)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StorageFailure:
        return StorageFailure(f"{self._path}: the snapshot cannot be written: {error}")


def _size_bound(record: NewRecord) -> int:
    """At least what the record takes in a batch."""
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD_BYTES for name, value in record.headers)
    return size
