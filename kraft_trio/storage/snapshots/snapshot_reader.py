"""Reads a snapshot file batch by batch: each byte is checked, and at most one batch is in memory (KIP-630).

A snapshot is a sequence of record batches whose offsets begin at 0.  First comes a control batch with SnapshotHeader
and, from kraft.version 1 on, KRaftVersion and Voters.  The application's records follow, then a control batch with
SnapshotFooter; a snapshot without it is cut off.  All batches carry the epoch of the snapshot's id.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Final, Protocol

import attrs

from kraft_trio.errors import CorruptSnapshotError, ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import BatchHeader, check_crc, decode_control_batch, peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.disk.disk import Buffer, Disk, DiskFile
from kraft_trio.storage.disk.unreadable import blank_text

_SMALL_BYTES: Final = 1024 * 1024
"""A damaged snapshot up to this size is read whole, to say so if it is blank."""

MAX_CONTROL_BATCH_BYTES: Final = 64 * 1024 * 1024
"""The header has the idempotent producers, which may take some MiB."""

_MOST_RECORDS: Final = 4
"""Control records that are kept of a batch: one more than may be in it."""


class SnapshotSource(Protocol):
    """The bytes of a snapshot, in an open file or in memory."""

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> Buffer: ...


@attrs.frozen
class SnapshotBatch:
    """One sound batch of a snapshot, which begins at byte `position`."""

    position: int
    header: BatchHeader
    data: Buffer
    """The whole batch."""
    control_records: tuple[ControlRecord, ...] = ()
    """The records of a control batch, except those of unknown types."""


@attrs.frozen
class ControlState:
    """The state of the quorum at a snapshot's end, which the snapshot records in place of the log."""

    last_contained_log_timestamp_ms: int
    """The append time of the last record that the snapshot covers."""
    voters: VoterSet | None = None
    """None at kraft.version 0, where voters are static."""
    kraft_version: int = 0
    producers: bytes = b""
    """The idempotent producers, encoded as a producer snapshot; empty if there are no producers."""
    removed_voters: tuple[ReplicaKey, ...] = ()
    """Former voters that had been removed, oldest removal first."""
    target_voters: tuple[ReplicaKey, ...] = ()
    """The target of a reassignment that was under way (KIP-642)."""


@attrs.frozen
class SnapshotSummary:
    """The totals of a whole, sound snapshot."""

    snapshot_id: OffsetAndEpoch
    size_in_bytes: int
    batch_count: int
    record_count: int
    """The application's records; control records are not counted."""
    control_state: ControlState


def read_batches(source: SnapshotSource, epoch: int | None = None) -> Iterator[SnapshotBatch]:
    """The batches of a snapshot in order, each checked before it is yielded.  All must carry `epoch`, if given.

    Raises ProtocolError, with the position and what was expected, at the first batch that is damaged or out of place,
    and at the end of a snapshot without header or footer.  Raises OSError.
    """
    size = source.size()
    batches = SnapshotBatches(size, epoch)
    while (batch := batches.next(source, size)) is not None:
        yield batch


class SnapshotBatches:
    """The batches of a snapshot in order, even while it is still being downloaded; see `read_batches`."""

    def __init__(self, size: int, epoch: int | None) -> None:
        """`size` is that of the whole snapshot in bytes."""
        self._size = size
        self._epoch = epoch
        self._position = self._next_offset = 0
        self._layout = _Layout()

    def next(self, source: SnapshotSource, end: int) -> SnapshotBatch | None:
        """The next batch; None at the snapshot's end, or if the batch ends after `end` (exclusive), the bytes so far.

        Raises what `read_batches` raises; do not call it again after that.
        """
        position, left = self._position, self._size - self._position
        if not left:
            if not self._layout.is_complete:
                raise ProtocolError(f"the snapshot ends at position {self._size} without its footer")
            return None
        if end - position < min(HEADER_BYTES, left):
            return None
        header = peek_header(source.read_at(position, HEADER_BYTES), named_position=position)
        if header.size_in_bytes > left:
            raise ProtocolError(f"batch at position {position}: {left} bytes are left, it has {header.size_in_bytes}")
        _check_place(position, header, self._next_offset, self._epoch)
        if not position and not header.is_control:
            raise ProtocolError("batch at position 0: a snapshot has one header, as its first record")
        if header.is_control and header.size_in_bytes > MAX_CONTROL_BATCH_BYTES:
            raise ProtocolError(
                f"batch at position {position}: {header.size_in_bytes} bytes of control records, expected "
                f"{MAX_CONTROL_BATCH_BYTES} at most"
            )
        if header.size_in_bytes > end - position:
            return None
        batch = _read_batch(source, position, header)
        self._layout.check(batch)
        self._next_offset = header.next_offset
        self._position += header.size_in_bytes
        return batch


def _check_place(position: int, header: BatchHeader, next_offset: int, epoch: int | None) -> None:
    where = f"batch at position {position}"
    if header.base_offset != next_offset:
        raise ProtocolError(f"{where}: base offset {header.base_offset}, expected {next_offset}")
    if header.record_count != header.last_offset_delta + 1:
        raise ProtocolError(
            f"{where}: {header.record_count} records with last offset delta {header.last_offset_delta}, expected "
            f"{header.last_offset_delta + 1}"
        )
    if epoch is not None and header.leader_epoch != epoch:
        raise ProtocolError(f"{where}: epoch {header.leader_epoch}, expected that of the snapshot's id, {epoch}")


def _read_batch(source: SnapshotSource, position: int, header: BatchHeader) -> SnapshotBatch:
    data = source.read_at(position, header.size_in_bytes)
    try:
        check_crc(data, 0, header)
        records = decode_control_batch(data, 0, header) if header.is_control else ()
        return SnapshotBatch(position, header, data, tuple(record for _, record in islice(records, _MOST_RECORDS)))
    except ProtocolError as error:
        raise ProtocolError(f"position {position}: {error}") from error


class _Layout:
    """Knows which control records may come next."""

    def __init__(self) -> None:
        self._has_begun = False
        self.is_complete = False

    def check(self, batch: SnapshotBatch) -> None:
        """Raise ProtocolError for a batch that may not come next."""
        where = f"batch at position {batch.position}"
        if self.is_complete:
            raise ProtocolError(f"{where}: it follows the snapshot's footer")
        kinds = [type(record) for record in batch.control_records]
        if self._has_begun == (SnapshotHeader in kinds) or SnapshotHeader in kinds[1:]:
            raise ProtocolError(f"{where}: a snapshot has one header, as its first record")
        allowed = (SnapshotFooter,) if self._has_begun else (SnapshotHeader, KRaftVersion, VotersRecord)
        if len(set(kinds)) < len(kinds) or not set(kinds) <= set(allowed):
            found, expected = (", ".join(kind.__name__ for kind in some) for some in (kinds, allowed))
            raise ProtocolError(f"{where}: control records {found}, expected each of {expected} once at most")
        self._has_begun = True
        self.is_complete = SnapshotFooter in kinds


def open_snapshot(disk: Disk, path: str, snapshot_id: OffsetAndEpoch) -> Generator[SnapshotBatch, None, None]:
    """The batches of a snapshot file; it is open until the iterator is exhausted or closed.

    Raises CorruptSnapshotError, naming file, position and what was expected; OSError.
    """
    file = disk.open_to_read(path)
    try:
        yield from batches_of(file, snapshot_id)
    finally:
        file.close()


def batches_of(file: DiskFile, snapshot_id: OffsetAndEpoch) -> Generator[SnapshotBatch, None, None]:
    """The batches of an open snapshot file.  Raises what `open_snapshot` raises."""
    try:
        yield from read_batches(file, snapshot_id.epoch)
    except ProtocolError as error:
        size = file.size()
        blank = blank_text(file.read_at(0, size)) if 0 < size <= _SMALL_BYTES else None
        reason = str(error) if blank is None else f"{blank}, expected batches of records"
        raise CorruptSnapshotError(f"{file.path}: {reason}") from error


def check_snapshot(disk: Disk, path: str, snapshot_id: OffsetAndEpoch) -> SnapshotSummary:
    """Read a whole snapshot, and check every CRC, offset and epoch, the header and the footer.

    Raises CorruptSnapshotError, naming file, position and what was expected; OSError.
    """
    return summarize(snapshot_id, open_snapshot(disk, path, snapshot_id))


def summarize(snapshot_id: OffsetAndEpoch, batches: Iterable[SnapshotBatch]) -> SnapshotSummary:
    """The totals of a snapshot, given all of its batches.  Raises what iterating over them raises."""
    count = SnapshotCount()
    for batch in batches:
        count.add(batch)
    return count.summary(snapshot_id)


class SnapshotCount:
    """Adds up the batches of a snapshot as they come."""

    def __init__(self) -> None:
        self._state: ControlState | None = None
        self._size_in_bytes = self._batch_count = self._record_count = 0

    def add(self, batch: SnapshotBatch) -> None:
        if self._state is None:
            self._state = control_state_of(batch.control_records)
        self._batch_count += 1
        self._size_in_bytes += batch.header.size_in_bytes
        if not batch.header.is_control:
            self._record_count += batch.header.record_count

    def summary(self, snapshot_id: OffsetAndEpoch) -> SnapshotSummary:
        """The totals, once all batches were added."""
        assert self._state is not None, "a snapshot without a header was let pass"
        return SnapshotSummary(snapshot_id, self._size_in_bytes, self._batch_count, self._record_count, self._state)


def read_control_state(disk: Disk, path: str, snapshot_id: OffsetAndEpoch) -> ControlState:
    """Read a snapshot's first batch, and nothing else.

    Raises CorruptSnapshotError, naming file, position and what was expected; OSError.
    """
    with closing(open_snapshot(disk, path, snapshot_id)) as batches:
        return control_state_of(next(batches).control_records)


def control_state_of(records: tuple[ControlRecord, ...]) -> ControlState:
    """The state in the first batch of a snapshot."""
    header = records[0]
    assert isinstance(header, SnapshotHeader), "a snapshot's first record was let pass"
    voters = next((record for record in records if isinstance(record, VotersRecord)), None)
    kraft_version = next((record.version for record in records if isinstance(record, KRaftVersion)), 0)
    return ControlState(
        header.last_contained_log_timestamp_ms,
        None if voters is None else voters.voters,
        kraft_version,
        header.producers,
        header.removed_voters,
        () if voters is None else voters.target,
    )
