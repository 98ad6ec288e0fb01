"""Finds the first batch, or the first byte of a snapshot, in which two replicas differ.

Both must have the same bytes up to the high watermark, which is not on disk.  But everything that a snapshot covers was
committed, so a difference below its end is a fault.  A difference above it may be a record that never committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage import partition_files
from kraft_trio.storage.batch import BatchHeader, peek_header
from kraft_trio.storage.batch_header import HEADER_BYTES
from kraft_trio.storage.disk import Disk, DiskFile, join
from kraft_trio.storage.partition_check import OnProgress, PartitionReport

_PIECE_BYTES = 1024 * 1024


@attrs.frozen
class PlacedBatch:
    """A batch and its position in a file."""

    path: str
    position: int
    header: BatchHeader
    data: bytes

    def __str__(self) -> str:
        header = self.header
        return (
            f"{self.path}, position {self.position}: offsets {header.base_offset} to {header.last_offset}, epoch "
            f"{header.leader_epoch}, {header.size_in_bytes} bytes, CRC {header.crc:#010x}"
        )


def log_batches(disk: Disk, report: PartitionReport, from_offset: int) -> Iterator[PlacedBatch]:
    """Yield the batches that begin at `from_offset` or later, up to the end of the sound part.  Raises OSError."""
    for offset in partition_files.offsets_of(disk.list_directory(report.directory), partition_files.LOG):
        path = join(report.directory, partition_files.offset_file_name(offset, partition_files.LOG))
        with closing(disk.open_to_read(path)) as file:
            position = 0
            while position < file.size():
                try:
                    header = peek_header(file.read_at(position, HEADER_BYTES))
                except ProtocolError:
                    return
                if header.next_offset > report.log_end_offset:
                    return
                if header.base_offset >= from_offset:
                    yield PlacedBatch(path, position, header, file.read_at(position, header.size_in_bytes))
                position += header.size_in_bytes


def first_difference(
    disk: Disk, one: PartitionReport, other: PartitionReport, on_progress: OnProgress = lambda _: None
) -> str | None:
    """Describe the first difference between two checked replicas; None if everything that both have is equal.

    It is no difference if the logs begin or end at different offsets.  Raises OSError.
    """
    return _logs(disk, one, other, on_progress) or _snapshots(disk, one, other)


def _logs(disk: Disk, one: PartitionReport, other: PartitionReport, on_progress: OnProgress) -> str | None:
    start = max(one.log_start_offset, other.log_start_offset)
    pairs = zip(log_batches(disk, one, start), log_batches(disk, other, start), strict=False)
    for ours, theirs in pairs:
        if ours.data != theirs.data:
            offset = min(ours.header.base_offset, theirs.header.base_offset)
            same_header = " (the headers are the same, the records are not)" if ours.header == theirs.header else ""
            return f"offset {offset}{_standing(offset, one, other)}: {ours}; {theirs}{same_header}"
        on_progress(len(ours.data))
    return None


def _standing(offset: int, one: PartitionReport, other: PartitionReport) -> str:
    covering = [id for id in (*_ids(one), *_ids(other)) if id.offset > offset]
    if covering:
        return f", which was committed, as snapshot {min(covering)} covers it"
    return ", which no snapshot covers: it may be uncommitted on one of them"


def _ids(report: PartitionReport) -> list[OffsetAndEpoch]:
    return [summary.snapshot_id for summary in report.snapshots]


def _snapshots(disk: Disk, one: PartitionReport, other: PartitionReport) -> str | None:
    for snapshot_id in sorted(set(_ids(one)) & set(_ids(other)) - {OffsetAndEpoch(0, 0)}):
        name = partition_files.checkpoint_name(snapshot_id)
        paths = join(one.directory, name), join(other.directory, name)
        with closing(disk.open_to_read(paths[0])) as ours, closing(disk.open_to_read(paths[1])) as theirs:
            position = _first_different_byte(ours, theirs)
            if position is not None:
                sizes = f"{ours.size()} and {theirs.size()} bytes"
                return f"snapshot {snapshot_id}, position {position}: {paths[0]}; {paths[1]} ({sizes})"
    return None


def _first_different_byte(ours: DiskFile, theirs: DiskFile) -> int | None:
    size = min(ours.size(), theirs.size())
    for start in range(0, size, _PIECE_BYTES):
        a, b = (file.read_at(start, min(_PIECE_BYTES, size - start)) for file in (ours, theirs))
        if a != b:
            return start + next(at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
    return None if ours.size() == theirs.size() else size
