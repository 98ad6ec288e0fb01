"""Finds where the batches of a part of a file begin, so that nobody has to read a file in order to divide it.

A file is divided at round positions.  A task reads the batches from the first boundary at or after the start of its
part to the first one at or after its end.  `boundary_at` gives both.

No batch is read twice or never.  The boundary is a function of the file's bytes and of the position alone: it asks no
index file, no task and no clock.  The task before a position and the task after it compute the same boundary, and
each boundary is the end of one part and the start of the next one.  So the parts cover the file without gap or overlap,
whatever the bytes are.

No boundary is inside a batch.  Let no batch be larger than LARGEST_BATCH_BYTES.  Then some batch begins in the window
of that size before the position.  Every place in the window that could be a header is a candidate, and a candidate
leads to the one at its end, if that continues its offsets and epochs.  The true batches are among the candidates, and
lead past the position to the boundary.  If all candidates that lead past the position lead to one place, and one of
them has a correct CRC, then that place is the boundary.  A scan from the file's start finds that one too, even after
damage, and continues from it in the same way.  Nothing that a record's value contains changes this: values that look
like batches add candidates, but never remove the true ones.  If the candidates disagree, they are not judged.  The
window grows, and in the end the file is read from its start, where a batch certainly begins.

The limit is that of Kafka and of this project, but `message.max.bytes` can raise it.  If a batch is larger, and its
value looks like batches, `decoding.part` notices that it crosses the boundary, and fails the query.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from kraft_trio.spark.decoding.byte_source import ByteSource, MemorySource
from kraft_trio.spark.decoding.damage import crc_at
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import Headers, Ints, field, gather, sizes_of
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER_BYTES, MAGIC, MAGIC_POSITION

LARGEST_BATCH_BYTES: Final = 8 * 1024 * 1024
"""See `storage.log.log_appender`; Kafka's is KafkaRaftClient.MAX_BATCH_SIZE_BYTES."""
_GROWTH: Final = 4
_MOST_GROWTHS: Final = 2
"""So often the window grows before the file is read from its start."""
_MOST_ENDS: Final = 16
"""More candidates than this that lead past the position agree in no log that a quorum writes."""
_LENGTH_POSITION: Final = 8


@attrs.frozen
class Boundary:
    """A place where a batch begins, or the file ends."""

    position: int
    expectation: Expectation
    """Expectation for the batch there."""


def boundary_at(
    source: ByteSource,
    position: int,
    of_file: Expectation,
    largest_batch_bytes: int = LARGEST_BATCH_BYTES,
    *,
    may_be_preallocated: bool = False,
) -> Boundary:
    """The first boundary at or after `position`; `of_file` is the expectation for the file's first batch.

    In a damaged file, this is where a batch begins that a scan from the file's start finds too.  Raises OSError.
    """
    if position <= 0:
        return Boundary(0, of_file)
    position = min(source.size, position)
    window = largest_batch_bytes
    for _ in range(_MOST_GROWTHS):
        if position <= window:
            break
        found = _agreed(source, position - window, position, of_file, largest_batch_bytes)
        if found is not None:
            return found
        window *= _GROWTH
    return _scanned(source, position, of_file, may_be_preallocated=may_be_preallocated)


def _scanned(source: ByteSource, position: int, of_file: Expectation, *, may_be_preallocated: bool) -> Boundary:
    """The boundary that a scan from the file's start comes to."""
    at, expectation = 0, of_file
    for found in scan(source, 0, source.size, of_file, stop=position, may_be_preallocated=may_be_preallocated):
        at = found.end if isinstance(found, Run) else found.position + found.size
        expectation = found.expectation
    return Boundary(at, expectation)


def _agreed(
    source: ByteSource, start: int, position: int, of_file: Expectation, largest_batch_bytes: int
) -> Boundary | None:
    """The boundary that all candidates from `start` to `position` lead to, or None if there is no such place."""
    window = source.read_at(start, position - start + HEADER_BYTES - 1)
    positions = _possible(window, position - start, source.size - start, largest_batch_bytes)
    headers = gather(window, positions)
    is_header = _is_possible(headers, of_file)
    positions, headers = positions[is_header], headers[is_header]
    ends = positions + sizes_of(headers)
    leads_to = _leads_to(positions, headers, ends, position - start)
    lasts = np.unique(leads_to[leads_to < len(positions)])
    if not 0 < len(lasts) <= _MOST_ENDS:
        return None
    boundaries = {}
    for last in lasts.tolist():
        end = start + int(ends[last])
        next_offset = int(headers["base_offset"][last]) + int(headers["last_offset_delta"][last]) + 1
        epoch = int(headers["leader_epoch"][last])
        following = source.read_at(end, HEADER_BYTES)
        if len(following) == HEADER_BYTES:
            header = gather(following, np.zeros(1, np.int64))
            if not _is_possible(header, of_file)[0] or header["base_offset"][0] != next_offset:
                continue
            if header["leader_epoch"][0] < epoch:
                continue
        expectation = attrs.evolve(of_file, base_offset=next_offset, is_exact=True, epoch=epoch)
        boundaries[Boundary(end, expectation)] = last
    if len(boundaries) != 1:
        return None
    [(boundary, last)] = boundaries.items()
    chain = np.flatnonzero(leads_to[:-1] == last)
    sizes = ends - positions
    smallest_first = chain[np.argsort(sizes[chain], kind="stable")].tolist()
    known = MemorySource(source.path, window)
    for at in smallest_first:
        place, size = int(positions[at]), int(sizes[at])
        crc = crc_at(known, place, size) if place + size <= len(window) else crc_at(source, start + place, size)
        if crc == headers["crc"][at]:
            return boundary
    return None


def _possible(window: bytes, end: int, left: int, largest_batch_bytes: int) -> Ints:
    """The positions before `end` in the window whose magic and length could be those of a batch.

    `left` is the size of the file from the window's start.
    """
    count = min(end, len(window) - HEADER_BYTES + 1)
    if count <= 0:
        return np.empty(0, np.int64)
    magics = np.frombuffer(window, np.uint8)[MAGIC_POSITION:]
    positions = np.flatnonzero(magics[:count] == MAGIC).astype(np.int64)
    # Reads a number at any position without creating a slice.
    lengths = np.ndarray((len(window) - FRAME_BYTES + 1,), ">i4", window, _LENGTH_POSITION, (1,))
    sizes = lengths[positions].astype(np.int64) + FRAME_BYTES
    is_size = (sizes >= HEADER_BYTES) & (sizes <= largest_batch_bytes) & (positions + sizes <= left)
    return positions[is_size]


def _is_possible(headers: Headers, of_file: Expectation) -> npt.NDArray[np.bool_]:
    """Which of the headers could be those of batches in this file."""
    is_possible = (
        (headers["magic"] == MAGIC)
        & (headers["base_offset"] >= of_file.base_offset)
        & (headers["leader_epoch"] >= of_file.epoch)
        & (headers["last_offset_delta"] >= 0)
        & (headers["record_count"] >= 0)
    )
    if of_file.only_epoch is not None:
        is_possible &= headers["leader_epoch"] == of_file.only_epoch
    found: npt.NDArray[np.bool_] = is_possible
    return found


def _leads_to(positions: Ints, headers: Headers, ends: Ints, stop: int) -> Ints:
    """The last candidate of the chain that each one begins, if that leads to `stop` or past it; else their number.

    One more entry represents a chain that ends before `stop`.
    """
    count = len(positions)
    if not count:
        return np.zeros(1, np.int64)
    places = np.arange(count + 1)
    nowhere = count
    followers = np.searchsorted(positions, ends)
    at = np.minimum(followers, count - 1)
    base_offsets, epochs = field(headers, "base_offset"), field(headers, "leader_epoch")
    next_offsets = base_offsets + field(headers, "last_offset_delta") + 1
    is_followed = (positions[at] == ends) & (base_offsets[at] == next_offsets) & (epochs[at] >= epochs)
    leads_to = places.copy()
    leads_to[:-1] = np.where(ends >= stop, places[:-1], np.where(is_followed, at, nowhere))
    # Each round doubles how far everyone has looked.
    while True:
        further = leads_to[leads_to]
        if np.array_equal(further, leads_to):
            break
        leads_to = further
    return leads_to
