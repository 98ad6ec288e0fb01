"""Scans the batches of a segment or snapshot in order, many at a time; reports damage and skips it."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from kraft_trio.spark.decoding.byte_source import ByteSource
from kraft_trio.spark.decoding.damage import Damage, crc_at, damage_at, wrong_base_offset, wrong_crc
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import Headers, Ints, content_crcs, field, gather, sizes_of, walk
from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER, HEADER_BYTES, MAGIC, BatchHeader

FIRST_CHUNK_BYTES = 16 * 1024
"""Size of the first read and of reads after damage, so that a badly damaged file is not read over and over."""
LARGEST_CHUNK_BYTES = 4 * 1024 * 1024


@attrs.frozen
class Run:
    """Complete adjacent batches in one buffer."""

    buffer: bytes
    buffer_position: int
    """Position of the buffer in the file."""
    positions: Ints
    """Positions of the batches in the buffer."""
    headers: Headers
    sizes: Ints
    crcs: Ints
    """Computed over the bytes from the attributes on."""
    misplaced: dict[int, str]
    """Problems with base offsets or epochs, by place in the run; the rest of such a batch is right."""
    damaged: dict[int, str]
    """Problems of batches with a wrong CRC, by place in the run; their ends are known."""
    expectation: Expectation
    """Expectation for what follows it."""

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def end(self) -> int:
        """Where its last batch ends in the file.  The run must not be empty."""
        return self.buffer_position + int(self.positions[-1] + self.sizes[-1])

    def header(self, at: int) -> BatchHeader:
        """The header of the batch at this place in the run."""
        base_offset, length, *rest = self.headers[at].item()
        return BatchHeader(base_offset, length + FRAME_BYTES, *rest)

    def select(self, wanted: Ints) -> Run:
        """The batches at these places, ascending."""
        places = {batch: at for at, batch in enumerate(wanted.tolist())}
        return attrs.evolve(
            self,
            positions=self.positions[wanted],
            headers=self.headers[wanted],
            sizes=self.sizes[wanted],
            crcs=self.crcs[wanted],
            misplaced={places[at]: text for at, text in self.misplaced.items() if at in places},
            damaged={places[at]: text for at, text in self.damaged.items() if at in places},
        )


def scan(
    source: ByteSource,
    start: int,
    end: int,
    expectation: Expectation,
    chunk_bytes: int = LARGEST_CHUNK_BYTES,
    stop: int | None = None,
    *,
    may_be_preallocated: bool = False,
) -> Iterator[Run | Damage]:
    """Yield the batches from `start` to `end`, which are positions where batches begin, or the source's end.

    With `stop`, nothing is yielded that begins there or later.  What is found up to there is the same as without it.
    With `may_be_preallocated`, the log may end before zeros; these are damage, too, but known as preallocated.
    Memory holds about `chunk_bytes`, or one batch.  A running node writes over the zeros at the end of its file: what
    has changed since it was read is read again.  Raises OSError.
    """
    position = start
    stop = end if stop is None else min(stop, end)
    size = first_size = min(FIRST_CHUNK_BYTES, chunk_bytes)
    while position < stop:
        chunk, positions = _read_chunk(source, position, end, min(size, stop - position))
        positions = positions[: np.searchsorted(positions, stop - position)]
        run = _read_run(chunk, position, positions, expectation)
        expectation = run.expectation
        if len(run):
            yield run
            position = run.end
            size = min(2 * size, chunk_bytes)
            continue
        damage = damage_at(source, position, end, expectation, may_be_preallocated=may_be_preallocated)
        size = first_size
        judged = chunk[: max(damage.size, HEADER_BYTES)]
        if not damage.error or source.read_at(position, len(judged)) != judged:
            continue
        if damage.is_batch:
            yield _damaged_batch(source, damage)
        else:
            yield damage
        position += damage.size
        expectation = damage.expectation


def _read_chunk(source: ByteSource, position: int, end: int, size: int) -> tuple[bytes, Ints]:
    """The chunk at `position` with the next header after its last complete batch, and where its batches begin."""
    chunk = source.read_at(position, min(size, end - position) + HEADER_BYTES)
    if len(chunk) < HEADER_BYTES:
        return chunk, np.empty(0, np.int64)
    first_size = int(sizes_of(gather(chunk, np.zeros(1, np.int64)))[0])
    if len(chunk) < first_size + HEADER_BYTES and HEADER_BYTES <= first_size <= end - position:
        # A damaged length may be anything; only proven batches are read as a whole.
        stored_crc = HEADER.unpack_from(chunk)[4]
        if first_size <= LARGEST_CHUNK_BYTES or crc_at(source, position, first_size) == stored_crc:
            chunk = source.read_at(position, first_size + HEADER_BYTES)
    positions = walk(chunk, 0, min(len(chunk), end - position))
    if len(positions):
        stop = int(positions[-1] + sizes_of(gather(chunk, positions[-1:]))[0])
        if len(chunk) - stop < HEADER_BYTES and position + len(chunk) < source.size:
            chunk += source.read_at(position + len(chunk), HEADER_BYTES)
    return chunk, positions


def _read_run(chunk: bytes, position: int, positions: Ints, expectation: Expectation) -> Run:
    """The batches at the chunk's start, up to one with an unknown end."""
    headers = gather(chunk, positions)
    sizes = sizes_of(headers)
    crcs = content_crcs(chunk, positions, sizes)
    misplaced: dict[int, str] = {}
    damaged: dict[int, str] = {}
    count = len(positions)
    if count:
        stop = int(positions[-1] + sizes[-1])
        follower = gather(chunk, np.array([stop])) if len(chunk) - stop >= HEADER_BYTES else None
        epoch_after = None if follower is None or follower["magic"][0] != MAGIC else int(follower["leader_epoch"][0])
        if not _is_in_order(headers, crcs, expectation, epoch_after):
            next_base_offset = None if follower is None else int(follower["base_offset"][0])
            count, expectation = _judge(headers, crcs, expectation, (next_base_offset, epoch_after), misplaced, damaged)
        else:
            last = headers[-1]
            expectation = attrs.evolve(
                expectation,
                base_offset=int(last["base_offset"]) + int(last["last_offset_delta"]) + 1,
                is_exact=True,
                other_base_offset=None,
                epoch=int(last["leader_epoch"]),
            )
    some = (positions[:count], headers[:count], sizes[:count], crcs[:count])
    return Run(chunk, position, *some, misplaced, damaged, expectation)


def _is_in_order(headers: Headers, crcs: Ints, expectation: Expectation, epoch_after: int | None) -> bool:
    """Whether all of them are sound."""
    base_offsets = field(headers, "base_offset")
    deltas = field(headers, "last_offset_delta")
    epochs = field(headers, "leader_epoch")
    following_epochs = epochs[1:] if epoch_after is None else np.append(epochs[1:], epoch_after)
    return bool(
        expectation.allows(int(base_offsets[0]))
        and expectation.doubtful_epoch is None
        and epochs[0] >= expectation.epoch
        and (base_offsets[1:] == base_offsets[:-1] + deltas[:-1] + 1).all()
        and (following_epochs >= epochs[: len(following_epochs)]).all()
        and (expectation.only_epoch is None or (epochs == expectation.only_epoch).all())
        and (headers["magic"] == MAGIC).all()
        and deltas.min() >= 0
        and headers["record_count"].min() >= 0
        and (crcs == headers["crc"]).all()
    )


def _judge(
    headers: Headers,
    crcs: Ints,
    expectation: Expectation,
    after: tuple[int | None, int | None],
    misplaced: dict[int, str],
    damaged: dict[int, str],
) -> tuple[int, Expectation]:
    """Examine the batches one by one; returns how many have a known end, and the expectation after them.

    `after` holds base offset and epoch of what follows the last one; None if nothing does.
    """
    is_sound = (
        (headers["magic"] == MAGIC)
        & (headers["base_offset"] >= 0)
        & (headers["last_offset_delta"] >= 0)
        & (headers["record_count"] >= 0)
    )
    base_offsets = [*field(headers, "base_offset").tolist(), after[0]]
    deltas = field(headers, "last_offset_delta").tolist()
    epochs = field(headers, "leader_epoch").tolist()
    # A header of another format says nothing about the epoch, whether it was read with this chunk or with the next.
    has_epoch = (headers["magic"] == MAGIC).tolist()
    following = [*(epochs[at] if has_epoch[at] else None for at in range(1, len(epochs))), after[1]]
    count = 0
    for at, stored_crc in enumerate(headers["crc"].tolist()):
        if not is_sound[at]:
            break
        computed_crc = int(crcs[at])
        next_offset = base_offsets[at] + deltas[at] + 1
        other_next_offset = None
        if not expectation.allows(base_offsets[at]):
            if computed_crc != stored_crc:
                break
            misplaced[at] = wrong_base_offset(base_offsets[at], expectation.base_offset)
            other_next_offset = expectation.base_offset + deltas[at] + 1
        elif computed_crc != stored_crc:
            if base_offsets[at + 1] != next_offset:
                break
            damaged[at] = wrong_crc(computed_crc, stored_crc)
        problem, expectation = _judge_epoch(epochs[at], following[at], expectation)
        if problem is not None:
            misplaced[at] = f"{misplaced[at]}; {problem}" if at in misplaced else problem
        expectation = attrs.evolve(
            expectation, base_offset=next_offset, is_exact=True, other_base_offset=other_next_offset
        )
        count += 1
    return count, expectation


def _judge_epoch(epoch: int, following: int | None, expectation: Expectation) -> tuple[str | None, Expectation]:
    """The problem with a batch's epoch, and the expectation for later batches.

    If the epoch falls, the later batch is wrong if it is below all earlier epochs; otherwise one of the two is wrong,
    and nobody can tell which.
    """
    only, before = expectation.only_epoch, expectation.doubtful_epoch
    settled = attrs.evolve(expectation, doubtful_epoch=None)
    if only is not None:
        return (None if epoch == only else f"leader epoch {epoch}, expected {only}"), settled
    if epoch < expectation.epoch:
        return f"leader epoch {epoch} after epoch {expectation.epoch}", settled
    if following is not None and expectation.epoch <= following < epoch:
        return f"leader epoch {epoch} before epoch {following}", attrs.evolve(settled, doubtful_epoch=epoch)
    if before is not None:
        return f"leader epoch {epoch} after epoch {before}", settled
    return None, attrs.evolve(settled, epoch=epoch)


def _damaged_batch(source: ByteSource, damage: Damage) -> Run:
    """The damage as a run of one batch, with only the header in memory."""
    header = source.read_at(damage.position, HEADER_BYTES)
    place = np.zeros(1, np.int64)
    return Run(
        header,
        damage.position,
        place,
        gather(header, place),
        np.array([damage.size]),
        np.array([crc_at(source, damage.position, damage.size)]),
        {},
        {0: damage.error},
        damage.expectation,
    )
