"""Divides what there is to read into pieces: segments, snapshots, parts of them, small files, and problems."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import attrs
import numpy as np

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.decoding.byte_source import ByteSource, FileSource
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import Ints, field, gather, sizes_of, walk
from kraft_trio.spark.files import files_of, join
from kraft_trio.spark.replicas import Replica, StoredFile
from kraft_trio.storage.batch_header import HEADER_BYTES, MAGIC
from kraft_trio.storage.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE

_WINDOW_BYTES = 1024 * 1024


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
    end: int = 0
    """Exclusive; the size of the file for a whole file."""
    expectation: Expectation = Expectation(0)
    """Expectation for the batch at `start`."""
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(0, 0)
    is_last: bool = True
    """Whether it reaches the end of the file."""
    next_segment: NextSegment | None = None
    """The segment that must continue the file; None for the last one."""

    @property
    def cost_bytes(self) -> int:
        """Approximate cost of reading it, including the cost of opening a file."""
        return self.end - self.start + 256 * 1024


def plan_pieces(replicas: Iterable[Replica], content: str, wanted: BatchFilter, target_bytes: int) -> Iterator[Piece]:
    """The pieces to read for the content.  Anything that cannot be opened is a piece too, which the reader reports."""
    for replica in replicas:
        bare = attrs.evolve(replica, segments=(), snapshots=(), other_names=frozenset())
        if replica.error is not None:
            yield Piece(Kind.PROBLEM, bare, replica.directory)
        if content in ("snapshots", "snapshot-records"):
            for id, file in replica.snapshots:
                whole = Piece(
                    Kind.SNAPSHOT, bare, file.path, 0, file.size, Expectation(0, only_epoch=id.epoch), snapshot_id=id
                )
                yield from [whole] if content == "snapshots" else _split(whole, target_bytes)
        elif content in ("quorum-state", "epochs"):
            name = QUORUM_STATE if content == "quorum-state" else LEADER_EPOCH_CHECKPOINT
            if name in replica.other_names:
                yield Piece(Kind.FILE, bare, join(replica.partition, name))
        else:
            for offset, file, following in _segments_in(replica.segments, wanted):
                whole = Piece(Kind.SEGMENT, bare, file.path, 0, file.size, Expectation(offset), next_segment=following)
                yield from _split(whole, target_bytes)


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
    """Parts of at least this many bytes, cut between batches.  From the first damage on, everything is one part."""
    if whole.end <= 2 * target_bytes:
        yield whole
        return
    start, expectation = whole.start, whole.expectation
    try:
        with files_of(whole.path).open(whole.path) as file:
            for batches in _sound_headers(FileSource(whole.path, whole.end, file), whole.expectation):
                while True:
                    at = int(np.searchsorted(batches.positions, max(start + target_bytes, 1)))
                    if at == len(batches.positions) or whole.end - batches.positions[at] < target_bytes:
                        break
                    position = int(batches.positions[at])
                    yield attrs.evolve(whole, start=start, end=position, expectation=expectation, is_last=False)
                    start, expectation = position, batches.expectation(at, whole.expectation)
    except OSError:
        # The reader will find and report it too.
        pass
    yield attrs.evolve(whole, start=start, expectation=expectation)


@attrs.frozen
class _Batches:
    """Consecutive batches."""

    positions: Ints
    """In the file."""
    base_offsets: Ints
    epochs: Ints
    epoch_before: int
    """Epoch of the batch before the first."""

    def expectation(self, at: int, of_file: Expectation) -> Expectation:
        """Expectation for the batch at this place, given the ones before it."""
        epoch = self.epoch_before if at == 0 else int(self.epochs[at - 1])
        return attrs.evolve(of_file, base_offset=int(self.base_offsets[at]), epoch=epoch)


def _sound_headers(source: ByteSource, expectation: Expectation) -> Iterator[_Batches]:
    """The batches of a file, up to the first unexpected header."""
    position = 0
    offset, epoch = expectation.base_offset, expectation.epoch
    while source.size - position >= HEADER_BYTES:
        window = source.read_at(position, _WINDOW_BYTES)
        if len(window) < HEADER_BYTES:
            return
        positions = walk(window, 0, len(window))
        if not len(positions):
            # A larger batch, or not a batch at all.
            positions = np.zeros(1, np.int64)
        headers = gather(window, positions)
        sizes = sizes_of(headers)
        base_offsets, epochs = field(headers, "base_offset"), field(headers, "leader_epoch")
        next_offsets = base_offsets + field(headers, "last_offset_delta") + 1
        is_sound = base_offsets == np.append(offset, next_offsets[:-1])
        is_sound &= (epochs >= np.append(epoch, epochs[:-1])) & (headers["magic"] == MAGIC)
        is_sound &= (next_offsets > base_offsets) & (sizes >= HEADER_BYTES)
        count = len(positions) if is_sound.all() else int(np.argmin(is_sound))
        if count:
            yield _Batches(positions[:count] + position, base_offsets[:count], epochs[:count], epoch)
        if count < len(positions):
            return
        offset, epoch = int(next_offsets[-1]), int(epochs[-1])
        position += int(positions[-1] + sizes[-1])
