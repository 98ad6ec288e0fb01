"""A place where no sound batch follows: what is wrong, and where batches continue."""

from __future__ import annotations

import struct

import attrs
import numpy as np
from crc32c import crc32c

from kraft_trio.errors import ProtocolError
from kraft_trio.spark.decoding.byte_source import ByteSource
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import HEADER, field, gather, sizes_of
from kraft_trio.storage.batches.batch_header import (
    CRC_START,
    FRAME_BYTES,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    peek_header,
)
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES

_FIRST_WINDOW_BYTES = 16 * 1024
_WINDOW_BYTES = 1024 * 1024
_OFFSET = struct.Struct(">q")
_TRAILER_BYTES = 8
"""A batch whose last value is a batch has at most so many zeros behind that: a count of headers, an end mark of LZ4."""


@attrs.frozen
class Damage:
    """A damaged part of a file."""

    position: int
    size: int
    error: str
    expectation: Expectation
    """Expectation for what follows it."""
    is_batch: bool
    """Whether it is a single batch with a readable header and a known end."""
    is_preallocated: bool = False
    """Whether it is what a node has preallocated, up to the end."""


def damage_at(
    source: ByteSource, position: int, end: int, expectation: Expectation, *, may_be_preallocated: bool = False
) -> Damage:
    """Diagnose the damage at `position`, and find the part up to `end` that must be skipped.

    The part is the batch that begins there if the data after it continues the log.  Otherwise it ends at the next batch
    with a correct CRC that another batch or the end follows.  A batch inside a record's value has neither after it.
    Without such a batch, the rest of the file is lost.  With `may_be_preallocated`, the log may also end before zeros.
    Raises OSError.
    """
    error, header = _what_is_wrong(source, position, end, expectation)
    is_only_zeros = header is None and has_only_zeros(source, position, end)
    first_preallocated = max(position, end - MAX_PREALLOCATE_BYTES) if may_be_preallocated else end
    # If the base offset of the batch before is damaged, the lower one of both may be right.
    allowed = [expectation.base_offset]
    if expectation.other_base_offset is not None:
        allowed.append(expectation.other_base_offset)
    following = attrs.evolve(
        expectation, base_offset=min(allowed), is_exact=False, other_base_offset=None, doubtful_epoch=None
    )
    if header is not None and position + header.size_in_bytes < end:
        after = position + header.size_in_bytes
        for base_offset in (header.base_offset, *allowed):
            next_offset = base_offset + header.last_offset_delta + 1
            if _is_begun(source, after, end, next_offset):
                following = attrs.evolve(following, base_offset=next_offset, is_exact=True)
                return Damage(position, header.size_in_bytes, error, following, is_batch=True)
    found = None if is_only_zeros else _find_batch(source, position, end, following, first_preallocated)
    if found is None:
        after = position if header is None else position + header.size_in_bytes
        is_zeros_after = is_only_zeros or (header is not None and has_only_zeros(source, after, end))
        is_log_end = is_zeros_after and after >= first_preallocated
        if header is not None and is_log_end:
            return Damage(position, header.size_in_bytes, error, following, is_batch=True)
        if is_zeros_after and end - after >= SECTOR_BYTES:
            error = f"{error}; {end - after} bytes of zeros to the end"
        return Damage(position, end - position, error, following, is_batch=False, is_preallocated=is_log_end)
    return Damage(position, found - position, error, following, is_batch=False)


def crc_at(source: ByteSource, position: int, size: int) -> int:
    """The CRC-32C of the batch there, over the bytes from the attributes on.  Raises OSError."""
    crc = 0
    for at in range(position + CRC_START, position + size, _WINDOW_BYTES):
        crc = crc32c(source.read_at(at, min(_WINDOW_BYTES, position + size - at)), crc)
    return crc


def wrong_crc(computed: int, stored: int) -> str:
    return f"CRC is {computed:#010x}, its header says {stored:#010x}"


def wrong_base_offset(base_offset: int, expected: int) -> str:
    return f"base offset {base_offset}, expected {expected}"


def _what_is_wrong(
    source: ByteSource, position: int, end: int, expectation: Expectation
) -> tuple[str, BatchHeader | None]:
    """The problem in words, and the header if it is readable and the batch ends before `end`."""
    data = source.read_at(position, min(HEADER_BYTES, end - position))
    try:
        header = peek_header(data)
    except ProtocolError as error:
        return str(error).partition(": ")[2], None
    if header.size_in_bytes > end - position:
        return f"a batch of {header.size_in_bytes} bytes, {end - position} are left", None
    problems = []
    if not expectation.allows(header.base_offset):
        problems.append(wrong_base_offset(header.base_offset, expectation.base_offset))
    crc = crc_at(source, position, header.size_in_bytes)
    if crc != header.crc:
        problems.append(wrong_crc(crc, header.crc))
    return "; ".join(problems), header


def _is_begun(source: ByteSource, position: int, end: int, base_offset: int) -> bool:
    """Whether a batch with that offset begins there, even a damaged one."""
    data = source.read_at(position, min(_OFFSET.size, end - position))
    return len(data) == _OFFSET.size and _OFFSET.unpack(data)[0] == base_offset


def has_only_zeros(source: ByteSource, start: int, end: int) -> bool:
    """Whether nothing but zeros is there, or nothing at all: the file may be shorter by now.  Raises OSError."""
    window_bytes = HEADER_BYTES
    while start < end:
        part = source.read_at(start, min(window_bytes, end - start))
        if part.count(0) != len(part):
            return False
        start += window_bytes
        window_bytes = min(4 * window_bytes, _WINDOW_BYTES)
    return True


def _ends_inside(source: ByteSource, outer: int, position: int, after: int) -> bool:
    """Whether the batch from `position` to `after` ends the last value of the damaged one that begins at `outer`.

    Then the outer one ends a few zeros later, by its length or by its CRC.
    """
    frame = source.read_at(outer, CRC_START)
    size = int.from_bytes(frame[_OFFSET.size : FRAME_BYTES], "big", signed=True) + FRAME_BYTES
    if after < outer + size <= after + _TRAILER_BYTES:
        return True
    crc, stored = crc_at(source, outer, after - outer), int.from_bytes(frame[CRC_START - 4 :], "big")
    for _ in range(_TRAILER_BYTES):
        crc = crc32c(b"\0", crc)
        if crc == stored:
            return True
    return False


def _find_batch(
    source: ByteSource, damaged: int, end: int, expectation: Expectation, first_preallocated: int
) -> int | None:
    """The position of the first sound batch behind `damaged` that another batch or the log's end follows.

    From `first_preallocated` on, the log may end before zeros.
    """
    window_start, window_bytes = damaged + 1, _FIRST_WINDOW_BYTES
    while end - window_start >= HEADER_BYTES:
        window = source.read_at(window_start, min(window_bytes + HEADER_BYTES - 1, end - window_start))
        if len(window) < HEADER_BYTES:
            return None
        magics = np.frombuffer(window, np.uint8)[HEADER.fields["magic"][1] :]  # type: ignore[index]
        candidates = np.flatnonzero(magics[: len(window) - HEADER_BYTES + 1] == MAGIC)
        headers = gather(window, candidates)
        sizes = sizes_of(headers)
        is_possible = (
            (sizes >= HEADER_BYTES)
            & (sizes <= end - window_start - candidates)
            & (headers["base_offset"] >= expectation.base_offset)
            & (headers["leader_epoch"] >= expectation.epoch)
            & (headers["last_offset_delta"] >= 0)
            & (headers["record_count"] >= 0)
        )
        next_offsets = field(headers, "base_offset") + field(headers, "last_offset_delta") + 1
        for at in np.flatnonzero(is_possible):
            position, size = window_start + int(candidates[at]), int(sizes[at])
            after = position + size
            is_followed = after == end or _is_begun(source, after, end, int(next_offsets[at]))
            if not is_followed and not (after >= first_preallocated and has_only_zeros(source, after, end)):
                continue
            if crc_at(source, position, size) == headers["crc"][at] and (
                is_followed or not _ends_inside(source, damaged, position, after)
            ):
                return position
        window_start += window_bytes
        window_bytes = min(2 * window_bytes, _WINDOW_BYTES)
    return None
