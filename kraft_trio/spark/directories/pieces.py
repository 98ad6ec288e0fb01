"""Divides what there is to read into pieces: segments, snapshots, parts of them, small files, and problems."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import closing

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.directories.files import files_of, join
from kraft_trio.spark.directories.replicas import Replica, StoredFile
from kraft_trio.storage.disk.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES

MOST_TASKS = 100_000
"""A query has about this many tasks at most: Spark's driver keeps all of them in memory."""
_OPEN_BYTES = 256 * 1024
"""Opening a file costs as much as reading so many bytes."""


class Kind(enum.Enum):
    """The kind of piece."""

    SEGMENT = enum.auto()
    SNAPSHOT = enum.auto()
    FILE = enum.auto()
    PROBLEM = enum.auto()


@attrs.frozen
class NextSegment:
    """The segment after this one, whether it is wanted or not."""

    base_offset: int
    """First offset, from the file name."""
    path: str


@attrs.frozen
class Piece:
    """A piece that one task reads, possibly with others."""

    kind: Kind
    replica: Replica
    """Without its files."""
    path: str
    start: int = 0
    """Inclusive.  The piece has the batches that begin between `start` and `end`; see `decoding.boundary`."""
    end: int = 0
    """Exclusive; the size of the file for its last piece."""
    file_size: int = 0
    """Size of the file when it was listed; its boundaries are those up to here."""
    expectation: Expectation = Expectation(0)
    """Expectation for the file's first batch."""
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(0, 0)
    next_segment: NextSegment | None = None
    """The segment that must continue the file; None for the last one."""

    @property
    def may_be_preallocated(self) -> bool:
        """Whether zeros at the file's end are space for appends: a node cuts them when it seals a segment."""
        return self.kind is Kind.SEGMENT and self.next_segment is None

    @property
    def cost_bytes(self) -> int:
        """Approximate cost of reading it, including the cost of opening a file."""
        return self.end - self.start + _OPEN_BYTES


def plan_pieces(replicas: Iterable[Replica], content: str, wanted: BatchFilter, target_bytes: int) -> Iterator[Piece]:
    """The pieces to read for the content, from the names and sizes of files.

    Only if `target_bytes` is tiny are the ends of last segments read, too.

    Anything that cannot be opened is a piece too, which the reader reports.  A row of `content=snapshots` has the
    SHA-256 of its file, which cannot be put together from those of parts, so such a file is one piece.
    """
    for replica in replicas:
        bare = attrs.evolve(replica, segments=(), snapshots=(), other_names=frozenset())
        if replica.error is not None:
            yield Piece(Kind.PROBLEM, bare, replica.directory)
        if content in ("snapshots", "snapshot-records"):
            for id, file in replica.snapshots:
                first = Expectation(0, only_epoch=id.epoch)
                whole = Piece(Kind.SNAPSHOT, bare, file.path, 0, file.size, file.size, first, id)
                yield from [whole] if content == "snapshots" else _split(whole, target_bytes)
        elif content in ("quorum-state", "epochs"):
            name = QUORUM_STATE if content == "quorum-state" else LEADER_EPOCH_CHECKPOINT
            if name in replica.other_names:
                yield Piece(Kind.FILE, bare, join(replica.partition, name))
        else:
            for offset, file, following in _segments_in(replica.segments, wanted):
                first = Expectation(offset)
                whole = Piece(Kind.SEGMENT, bare, file.path, 0, file.size, file.size, first, next_segment=following)
                yield from _split(whole, target_bytes)


def task_bytes(replicas: Iterable[Replica], content: str, wanted: BatchFilter, target_bytes: int) -> int:
    """The size of a task: `target_bytes`, or more if there would be more than MOST_TASKS."""
    sizes = 0
    for replica in replicas:
        if content in ("snapshots", "snapshot-records"):
            sizes += sum(file.size + _OPEN_BYTES for _, file in replica.snapshots)
        else:
            sizes += sum(file.size + _OPEN_BYTES for _, file, _ in _segments_in(replica.segments, wanted))
    return max(target_bytes, sizes // MOST_TASKS)


def pack(pieces: Iterable[Piece], target_bytes: int) -> list[list[Piece]]:
    """Group pieces in order into tasks of about this many bytes."""
    packed: list[list[Piece]] = []
    left = 0
    for piece in pieces:
        if not packed or piece.cost_bytes > left:
            packed.append([])
            left = target_bytes
        packed[-1].append(piece)
        left -= piece.cost_bytes
    return packed


def _segments_in(
    segments: tuple[tuple[int, StoredFile], ...], wanted: BatchFilter
) -> Iterator[tuple[int, StoredFile, NextSegment | None]]:
    """The segments that may hold wanted offsets: each one ends where the next begins."""
    following = [*(NextSegment(offset, file.path) for offset, file in segments), None][1:]
    for (offset, file), after in zip(segments, following, strict=True):
        end = NO_END if after is None else after.base_offset
        if offset < wanted.end_offset and end > wanted.start_offset:
            yield offset, file, after


def _split(whole: Piece, target_bytes: int) -> Iterator[Piece]:
    """Parts of at least this many bytes."""
    count = max(1, whole.end // target_bytes)
    if count > 1 and whole.may_be_preallocated:
        # A running node writes over the zeros.  Tasks that find a boundary there, one before and one after, differ.
        written = whole.end - MAX_PREALLOCATE_BYTES
        if target_bytes < MAX_PREALLOCATE_BYTES:
            written = _end_before_zeros(whole.path, whole.end)
        count = min(count, max(1, -(-written // target_bytes)))
    for number in range(count):
        is_last = number == count - 1
        end = whole.end if is_last else (number + 1) * target_bytes
        yield attrs.evolve(whole, start=number * target_bytes, end=end)


def _end_before_zeros(path: str, size: int) -> int:
    """The position after the last byte that is not preallocated."""
    start = max(0, size - MAX_PREALLOCATE_BYTES)
    try:
        with closing(files_of(path).open(path)) as file:
            file.seek(start)
            return start + len(file.read(size - start).rstrip(b"\0"))
    except OSError:
        return size  # The task that reads it tells.
