"""Batches of values alone, encoded fast: records with the batch's time, without key and headers.

The bytes are those of `encode_batch`.  A record is a few bytes of lengths and deltas around its value; there are few
different ones, so they are looked up, and put between the values by steps that each take the whole batch at once.
Most of what is left is the copying and the CRC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from kraft_trio.storage.batch_header import FRAME_BYTES, HEADER, HEADER_BYTES, MAGIC, NO_PRODUCER_ID, patch_crc
from kraft_trio.storage.varint import encode_varint

MAX_VALUES: Final = 4096
"""In one batch: as many offset deltas are known."""

_DELTAS: Final = tuple(encode_varint(delta) for delta in range(MAX_VALUES))
_SHORT_DELTAS: Final = 64
"""So many deltas take one byte, the others two."""
_USUAL_COUNT: Final = 512


class _BySize(dict[int, bytes]):
    """The bytes for values of a size; those of small sizes are kept."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, size: int) -> bytes:
        made = self._make(size)
        if size < 8192:
            self[size] = made
        return made


def _start(size: int, delta_size: int) -> bytes:
    """The header count of the record before, 0; then length, attributes and time delta of one with such a value."""
    length = 1 + 1 + delta_size + 1 + len(encode_varint(size)) + size + 1
    return b"\x00" + encode_varint(length) + b"\x00\x00"


_SHORT_STARTS: Final = _BySize(lambda size: _start(size, 1))
_LONG_STARTS: Final = _BySize(lambda size: _start(size, 2))
_SIZES: Final = _BySize(lambda size: b"\x01" + encode_varint(size))
"""A null key, and the length of the value."""


@lru_cache(maxsize=16)
def _heads(size: int, count: int) -> tuple[bytes, ...]:
    """All that stands before each value where they have one size."""
    return tuple(
        (_SHORT_STARTS if delta < _SHORT_DELTAS else _LONG_STARTS)[size] + _DELTAS[delta] + _SIZES[size]
        for delta in range(count)
    )


def encode_values(values: Sequence[bytes], *, timestamp_ms: int, base_offset: int, leader_epoch: int) -> bytearray:
    """One batch of 1 to MAX_VALUES records that are these values, as `encode_batch` would encode it."""
    count = len(values)
    assert 0 < count <= MAX_VALUES, f"{count} values, expected 1 to {MAX_VALUES}"
    sizes = list(map(len, values))
    parts: list[bytes]
    if sizes.count(sizes[0]) == count:
        parts = [b""] * (2 * count)
        parts[0::2] = _heads(sizes[0], _USUAL_COUNT if count <= _USUAL_COUNT else MAX_VALUES)[:count]
        parts[1::2] = values
    else:
        parts = [b""] * (4 * count)
        parts[0::4] = [
            *map(_SHORT_STARTS.__getitem__, sizes[:_SHORT_DELTAS]),
            *map(_LONG_STARTS.__getitem__, sizes[_SHORT_DELTAS:]),
        ]
        parts[1::4] = _DELTAS[:count]
        parts[2::4] = map(_SIZES.__getitem__, sizes)
        parts[3::4] = values
    parts[0] = parts[0][1:]
    parts.append(b"\x00")
    batch = bytearray(HEADER_BYTES)
    batch += b"".join(parts)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - FRAME_BYTES,
        leader_epoch,
        MAGIC,
        0,
        0,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        NO_PRODUCER_ID,
        -1,
        -1,
        count,
    )
    patch_crc(batch)
    return batch
