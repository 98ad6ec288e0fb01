"""Tells a torn tail of a log from damage to records that may have been promised.

A client chooses the bytes of its records, so a record may contain whole batches with correct CRCs.  If such a batch is
torn, the batches inside it must not count as whole batches behind damage: one client could then keep every voter from
starting.  So the search skips a torn batch.  Its header says how far it reaches.  It is torn if the file ends before
that, if one of its sectors was never written, or if only preallocated zeros follow a part of it.

The length in the header is not under the CRC.  If it is damaged, the batch may seem to include the next ones.  If the
batch is uncompressed, its records show where it really ends: if the CRC is correct up to there, the length is damaged.
A compressed batch that seems to reach beyond the end of the file counts as torn.
"""

from __future__ import annotations

import mmap
from typing import Final

from crc32c import crc32c

from kraft_trio.storage.batches.batch_header import (
    COMPRESSION_ATTRIBUTES,
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from kraft_trio.storage.segments.preallocation import has_only_zeros

_MAGIC_BYTE = bytes([MAGIC])

_LEAST_MISSING_BYTES: Final = 2
"""If the last bytes of a batch are zeros, and all that follows, it may not have been written up to there.  A record
without headers ends with one zero."""


def find_promised_batch(
    view: memoryview, position: int, next_offset: int, latest_epoch: int, *, knows_synced_offset: bool
) -> int | None:
    """Return the position of a batch with a correct CRC at or behind the damage at `position`; None for a torn tail.

    `next_offset` is the base offset that the damaged batch should have, `latest_epoch` the epoch of the batch before.
    With `knows_synced_offset`, nothing there was promised to be durable.  Then a sector that was never written ends the
    log, and whole batches behind it are cut, too.
    """
    hole = _missing_sector(view, position, next_offset)
    if knows_synced_offset and hole == position:
        return None
    if _is_whole_batch(view, position):
        return position
    end = len(view)
    claimed_end = _claimed_end(view, position, next_offset, latest_epoch)
    if claimed_end is not None and _has_wrong_length(view, position, claimed_end):
        return position
    from_position = position + 1
    if claimed_end is not None and (
        claimed_end > end
        or (hole is not None and hole < claimed_end)
        or has_only_zeros(view, claimed_end - _LEAST_MISSING_BYTES)
    ):
        from_position = claimed_end
    up_to = hole if knows_synced_offset and hole is not None else end
    return _find_whole_batch(view, position, from_position, up_to, next_offset, latest_epoch)


def _claimed_end(view: memoryview, position: int, next_offset: int, latest_epoch: int) -> int | None:
    """Return the end (exclusive) that the header at `position` claims; None if it cannot be the next batch's header."""
    if len(view) - position < HEADER_BYTES:
        return None
    base_offset, length, epoch, magic, _, _, last_offset_delta, *_ = HEADER.unpack_from(view, position)
    size = length + FRAME_BYTES
    is_next = base_offset == next_offset and epoch >= max(0, latest_epoch) and magic == MAGIC
    return position + size if is_next and last_offset_delta >= 0 and size >= HEADER_BYTES else None


def _has_wrong_length(view: memoryview, position: int, claimed_end: int) -> bool:
    """Whether the batch is whole but for its length."""
    _, _, _, _, crc, attributes, *_, record_count = HEADER.unpack_from(view, position)
    if attributes & COMPRESSION_ATTRIBUTES:
        return False
    records_end = _records_end(view, position + HEADER_BYTES, record_count)
    if records_end is None or records_end == claimed_end:
        return False
    return bool(crc32c(view[position + CRC_START : records_end]) == crc)


def _records_end(view: memoryview, at: int, record_count: int) -> int | None:
    """Return the end (exclusive) of that many uncompressed records; None if they are cut or malformed."""
    end = len(view)
    for _ in range(record_count):
        size = shift = 0
        while True:
            if at >= end or shift > 28:
                return None
            byte = view[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if size & 1 or not size:
            return None
        at += size >> 1
        if at > end:
            return None
    return at


def _missing_sector(view: memoryview, position: int, next_offset: int) -> int | None:
    """Return the start of the first sector, at or behind `position`, that was never written; None without one.

    Such a sector reads as zeros, from the former end of the file, where a batch starts, or as a whole.  Flipped bits do
    not look like that, unless the batch contains such zeros.
    """
    sector_end = position - position % SECTOR_BYTES + SECTOR_BYTES
    first = view[position:sector_end]
    # Of a few bytes only the base offset is in there, which may well begin with zeros.
    would_differ = len(first) >= FRAME_BYTES or any(next_offset.to_bytes(8, "big")[: len(first)])
    if would_differ and not any(first):
        return position
    sectors = range(sector_end, len(view), SECTOR_BYTES)
    return next((at for at in sectors if not any(view[at : at + SECTOR_BYTES])), None)


def _find_whole_batch(
    view: memoryview, damaged_position: int, from_position: int, up_to: int, next_offset: int, latest_epoch: int
) -> int | None:
    """Return the position of the first whole batch from `from_position` to `up_to` (exclusive) that may follow here."""
    content = view.obj
    assert isinstance(content, bytes | mmap.mmap)
    at = content.find(_MAGIC_BYTE, from_position + MAGIC_POSITION)
    while 0 <= at < up_to + MAGIC_POSITION:
        position = at - MAGIC_POSITION
        if len(view) - position < HEADER_BYTES:
            break
        base_offset, _, epoch = HEADER.unpack_from(view, position)[:3]
        # A record takes more than one byte, so that an offset cannot be further ahead than bytes have passed.
        is_plausible = next_offset < base_offset <= next_offset + position - damaged_position and epoch >= latest_epoch
        if is_plausible and _is_whole_batch(view, position):
            return position
        at = content.find(_MAGIC_BYTE, at + 1)
    return None


def _is_whole_batch(view: memoryview, position: int) -> bool:
    left = len(view) - position
    if left < HEADER_BYTES:
        return False
    _, length, _, magic, crc, *_ = HEADER.unpack_from(view, position)
    size = length + FRAME_BYTES
    if magic != MAGIC or not HEADER_BYTES <= size <= left:
        return False
    return bool(crc32c(view[position + CRC_START : position + size]) == crc)
