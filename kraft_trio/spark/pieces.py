"""What there is to read, in pieces: a segment, a snapshot or a part of one, a small file, a directory's problem."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.decoding.byte_source import ByteSource, FileSource
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.files import files_of, join
from kraft_trio.spark.replicas import Replica, StoredFile
from kraft_trio.storage.batch_header import FRAME_BYTES, HEADER_BYTES, MAGIC
from kraft_trio.storage.partition_files import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE

_WINDOW_BYTES = 64 * 1024
_START_OF_HEADER = struct.Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""


class Kind(enum.Enum):
    """What a piece is of."""

    SEGMENT = enum.auto()
    SNAPSHOT = enum.auto()
    FILE = enum.auto()
    PROBLEM = enum.auto()


@attrs.frozen
class Piece:
    """What one task reads, or a part of that."""

    kind: Kind
    replica: Replica
    """Without its files."""
    path: str
    start: int = 0
    end: int = 0
    """Exclusive; of the whole file its size."""
    expectation: Expectation = Expectation(0)
    """Of the batch at `start`."""
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(0, 0)
    is_last: bool = True
    """Whether the file ends with it."""

    @property
    def cost_bytes(self) -> int:
        """What it takes to read, roughly: opening a file costs something as well."""
        return self.end - self.start + 256 * 1024


def plan_pieces(replicas: Iterable[Replica], content: str, wanted: BatchFilter, target_bytes: int) -> Iterator[Piece]:
    """What is to be read for that content; what cannot be opened is a piece as well, of which the reader says so."""
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
            for offset, file in _segments_in(replica.segments, wanted):
                yield from _split(Piece(Kind.SEGMENT, bare, file.path, 0, file.size, Expectation(offset)), target_bytes)


def pack(pieces: Iterable[Piece], target_bytes: int) -> list[list[Piece]]:
    """Pieces put together in their order, each time to about so many bytes."""
    packed: list[list[Piece]] = []
    left = 0
    for piece in pieces:
        if not packed or piece.cost_bytes > left:
            packed.append([])
            left = target_bytes
        packed[-1].append(piece)
        left -= piece.cost_bytes
    return packed


def _segments_in(segments: tuple[tuple[int, StoredFile], ...], wanted: BatchFilter) -> Iterator[tuple[int, StoredFile]]:
    """Those that may hold offsets that are wanted: each ends where the next one begins."""
    ends = [*(offset for offset, _ in segments), NO_END][1:]
    for (offset, file), end in zip(segments, ends, strict=True):
        if offset < wanted.end_offset and end > wanted.start_offset:
            yield offset, file


def _split(whole: Piece, target_bytes: int) -> Iterator[Piece]:
    """Parts of at least so many bytes, cut where batches begin; from the first damage on all is one part."""
    if whole.end <= 2 * target_bytes:
        yield whole
        return
    start, expectation = whole.start, whole.expectation
    try:
        with files_of(whole.path).open(whole.path) as file:
            source = FileSource(whole.path, whole.end, file)
            for position, following in _boundaries(source, whole.expectation):
                if position - start >= target_bytes and whole.end - position >= target_bytes:
                    yield attrs.evolve(whole, start=start, end=position, expectation=expectation, is_last=False)
                    start, expectation = position, following
    except OSError:
        # The reader comes upon it as well, and says so.
        pass
    yield attrs.evolve(whole, start=start, expectation=expectation)


def _boundaries(source: ByteSource, expectation: Expectation) -> Iterator[tuple[int, Expectation]]:
    """Where each batch but the first begins, and what is expected of it, as long as headers say what they should."""
    position = 0
    offset, epoch = expectation.base_offset, expectation.epoch
    while source.size - position >= HEADER_BYTES:
        window = source.read_at(position, _WINDOW_BYTES)
        at = 0
        while len(window) - at >= HEADER_BYTES:
            base_offset, length, batch_epoch, magic, _, _, delta = _START_OF_HEADER.unpack_from(window, at)
            is_right = base_offset == offset and batch_epoch >= epoch and magic == MAGIC and delta >= 0
            if not is_right or length < HEADER_BYTES - FRAME_BYTES:
                return
            if position + at:
                yield position + at, attrs.evolve(expectation, base_offset=offset, epoch=epoch)
            offset, epoch = base_offset + delta + 1, batch_epoch
            at += length + FRAME_BYTES
        if not at:
            return
        position += at
