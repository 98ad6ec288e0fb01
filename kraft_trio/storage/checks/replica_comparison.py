"""Finds the first batch, or the first record of a snapshot, in which two replicas differ.

Both logs must have the same bytes up to the high watermark, which is not on disk.  But everything that a snapshot
covers was committed, so a difference below its end is a fault.  A difference above it may be a record that never
committed.  Snapshots must have the same records: each replica of Kafka gives its own other timestamps.  And the voters
that the nodes were formatted with, or static ones, must be able to elect one leader.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import zip_longest

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.static_voters import disjoint_majorities
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import BatchHeader, decode_records, peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.checks.partition_check import OnProgress, PartitionReport
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, DiskFile, join
from kraft_trio.storage.snapshots.snapshot_reader import open_snapshot

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

    It is no difference if the logs begin or end at different offsets.  A note of `other` names a snapshot that differs
    in timestamps and batches only.  Raises OSError.
    """
    return _voters(one, other) or _logs(disk, one, other, on_progress) or _snapshots(disk, one, other)


def _voters(one: PartitionReport, other: PartitionReport) -> str | None:
    """Voters in which the two must agree.  A log may lag, so its own voter sets are compared with its batches.

    Nodes that were formatted with different lists refuse each other their votes, and static voters whose majorities
    need no common voter elect two leaders.
    """
    ours, theirs = one.formatted_voters, other.formatted_voters
    if ours is not None and theirs is not None and _told(ours) != _told(theirs):
        return (
            f"bootstrap checkpoints: {one.directory} was formatted with the voters {_told(ours)}; {other.directory} "
            f"with {_told(theirs)}"
        )
    if disjoint_majorities(one.static_voters, other.static_voters) is not None:
        sets = [", ".join(map(str, report.static_voters)) for report in (one, other)]
        return f"quorum-state: the static voters are {sets[0]} in {one.directory}; {sets[1]} in {other.directory}"
    return None


def _told(voters: VoterSet) -> str:
    return ", ".join(sorted(str(voter.key) for voter in voters))


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
            if _have_same_bytes(ours, theirs):
                continue
            sizes = f"{ours.size()} and {theirs.size()} bytes"
        index = _first_different_record(disk, paths, snapshot_id)
        if index is not None:
            return f"snapshot {snapshot_id}, record {index}: {paths[0]}; {paths[1]} ({sizes})"
        other.notes.append(
            f"snapshot {snapshot_id}: the records of {paths[0]} with other timestamps or batches, as replicas of "
            "Apache Kafka write them"
        )
    return None


def _first_different_record(disk: Disk, paths: tuple[str, str], snapshot_id: OffsetAndEpoch) -> int | None:
    """Return the index of the record; None if both have the same, apart from timestamps and batches."""
    ours, theirs = (_records(disk, path, snapshot_id) for path in paths)
    with closing(ours), closing(theirs):
        for index, (one, other) in enumerate(zip_longest(ours, theirs)):
            if one != other:
                return index
    return None


def _records(disk: Disk, path: str, snapshot_id: OffsetAndEpoch) -> Generator[tuple[object, ...], None, None]:
    with closing(open_snapshot(disk, path, snapshot_id)) as batches:
        for batch in batches:
            for record in decode_records(batch.data, 0, batch.header):
                yield batch.header.is_control, record.key, record.value, record.headers


def _have_same_bytes(ours: DiskFile, theirs: DiskFile) -> bool:
    size = ours.size()
    if size != theirs.size():
        return False
    pieces = ((start, min(_PIECE_BYTES, size - start)) for start in range(0, size, _PIECE_BYTES))
    return all(ours.read_at(*piece) == theirs.read_at(*piece) for piece in pieces)
