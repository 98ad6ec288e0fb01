"""Whether what stands at the end of a log is a torn tail, or damage to something that may have been promised.

A writer chooses the bytes of the records, so a record may hold whole batches with right CRCs.  What a power failure
leaves of such a batch must not be taken for damage with sound batches behind it: one client could then keep every
voter from starting.  So nothing is looked for inside a batch that is visibly torn.  Its own header says how far it
reaches, and torn it is if the file ends before that, or if a sector in it was never written.

The header's length is not under the CRC and may itself be damaged, so that it seems to swallow the batches that follow.
The records tell: they end where they end, and if the CRC is right up to there, the length is wrong and nothing is torn.
Compressed records do not tell; a compressed batch whose length says that the file ends inside it counts as torn.
"""

from __future__ import annotations

import mmap

from crc32c import crc32c

from kraft_trio.storage.batch_header import (
    COMPRESSION_ATTRIBUTES,
    CRC_START,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from kraft_trio.storage.disk import SECTOR_BYTES

_MAGIC_BYTE = bytes([MAGIC])


def find_promised_batch(
    view: memoryview, position: int, next_offset: int, latest_epoch: int, *, knows_synced_offset: bool
) -> int | None:
    """The position of a batch with a right CRC at or behind the damage at `position`; None for a torn tail.

    `next_offset` is the offset that a batch there would begin with, `latest_epoch` that of the batch before it.  With
    `knows_synced_offset` nothing there was promised to be durable, so a sector that was never written ends the log:
    whole batches behind it go too.
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
    if claimed_end is not None and (claimed_end > end or (hole is not None and hole < claimed_end)):
        from_position = claimed_end
    up_to = hole if knows_synced_offset and hole is not None else end
    return _find_whole_batch(view, position, from_position, up_to, next_offset, latest_epoch)


def _claimed_end(view: memoryview, position: int, next_offset: int, latest_epoch: int) -> int | None:
    """Where the batch ends (exclusive) whose header stands there; None if that cannot be the header of the next one."""
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
    """Where that many uncompressed records end (exclusive); None if the file ends before, or they are none."""
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
    """Where the first sector begins, at or behind `position`, that was never written; None if there is none.

    Such a sector reads as zeros, from where the file ended at the time, which is where a batch begins, to the sector's
    end; or for a whole sector.  Flipped bits leave no such thing, unless the batch had it.
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
    """The first whole batch that begins from `from_position` on and before `up_to`, and may follow in this log."""
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
