"""Encodes batches column by column: each step encodes one field of all records.

The result equals that of `encode_batch`, which encodes record by record and also handles the rare cases.  A record is
its key and value with a few bytes of lengths and deltas around them.  Those bytes depend only on sizes, so each step
looks them up in a table.  A single join then puts all parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER, HEADER_BYTES, MAGIC, NO_PRODUCER_ID, patch_crc
from kraft_trio.storage.batches.varint import encode_varint
from kraft_trio.storage.disk.disk import Buffer

MAX_RECORDS: Final = 4096
"""The most records in a batch: the table of offset deltas ends there."""
KNOWN_SIZES: Final = 8192
"""The tables cover keys, values and records below this size."""

_DELTAS: Final = tuple(encode_varint(delta) for delta in range(MAX_RECORDS))
_DELTA_BYTES: Final = tuple(map(len, _DELTAS))
_SHORT_DELTAS: Final = 64
"""Deltas below this take one byte, the others two."""
_LENGTHS: Final = tuple(encode_varint(size) for size in range(KNOWN_SIZES))
_NULL: Final = encode_varint(-1)
_FIELD_BYTES: Final = tuple(len(length) + size for size, length in enumerate(_LENGTHS))
"""The bytes of a key or value together with its length, by its size."""


# Each starts with the header count of the record before, 0, and ends with the record's attributes.
_STARTS: Final = tuple(b"\x00" + encode_varint(1 + size + 1) + b"\x00" for size in range(KNOWN_SIZES + 8))
"""By the total bytes of time delta, offset delta, key and value.  The 8 extra entries are for the first three of these
in addition to a value of maximum size."""

# For records with only a value and the time delta 0, by the value's size.  Offset deltas have one byte, or else two.
_SHORT_VALUE_STARTS: Final = tuple(_STARTS[1 + 1 + 1 + size] + b"\x00" for size in _FIELD_BYTES)
_LONG_VALUE_STARTS: Final = tuple(_STARTS[1 + 2 + 1 + size] + b"\x00" for size in _FIELD_BYTES)
_VALUE_LENGTHS: Final = tuple(_NULL + length for length in _LENGTHS)
_VALUE_PARTS: Final = [part for delta in _DELTAS for part in (b"", delta, b"", b"")]

_time_delta: Final = lru_cache(maxsize=8192)(encode_varint)


def encode_values(
    values: Sequence[bytes], sizes: Sequence[int], *, timestamp_ms: int, base_offset: int, leader_epoch: int
) -> Buffer:
    """Encode one batch whose records have only a value.  `sizes` are the sizes of `values`."""
    if 1 < len(values) <= MAX_RECORDS:
        try:
            parts = _parts_of_values(values, sizes)
        except IndexError:
            pass
        else:
            return _joined(parts, len(values), timestamp_ms, timestamp_ms, base_offset, leader_epoch)
    records = [NewRecord(value) for value in values]
    return encode_batch(records, timestamp_ms=timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def encode_records(records: Sequence[NewRecord], *, timestamp_ms: int, base_offset: int, leader_epoch: int) -> Buffer:
    """Encode one batch.  Raises what `encode_batch` raises."""
    count = len(records)
    values = [record.value for record in records if type(record.value) is bytes and not record.headers]
    keys = [record.key for record in records if record.key is not None]
    have_all_keys_or_none = not keys or list(map(type, keys)).count(bytes) == count
    if len(values) == count and have_all_keys_or_none and 1 < count <= MAX_RECORDS:
        times_ms = [timestamp_ms if record.timestamp_ms is None else record.timestamp_ms for record in records]
        try:
            if keys or times_ms.count(times_ms[0]) < count:
                parts = _parts_of_fields(values, keys, times_ms)
            else:
                parts = _parts_of_values(values, list(map(len, values)))
        except IndexError:
            pass
        else:
            return _joined(parts, count, times_ms[0], max(times_ms), base_offset, leader_epoch)
    return encode_batch(records, timestamp_ms=timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def _parts_of_values(values: Sequence[bytes], sizes: Sequence[int]) -> list[bytes]:
    """The parts of two or more records.  Raises IndexError if a value is too large for the tables."""
    by_size = itemgetter(*sizes)
    parts = _VALUE_PARTS[: 4 * len(values)]
    parts[0::4] = by_size(_LONG_VALUE_STARTS)
    parts[0 : 4 * _SHORT_DELTAS : 4] = itemgetter(*sizes[:_SHORT_DELTAS])(_SHORT_VALUE_STARTS)
    parts[2::4] = by_size(_VALUE_LENGTHS)
    parts[3::4] = values
    return parts


def _parts_of_fields(values: list[bytes], keys: list[bytes], times_ms: list[int]) -> list[bytes]:
    """The parts of two or more records.  Either all have a key, or `keys` is empty.

    Raises IndexError if a field is too large for the tables.
    """
    count, first_ms = len(values), times_ms[0]
    parts = [b""] * (7 * count)
    parts[1::7] = times = [_time_delta(time_ms - first_ms) for time_ms in times_ms]
    parts[2::7] = _DELTAS[:count]
    if keys:
        by_key_size = itemgetter(*map(len, keys))
        parts[3::7] = by_key_size(_LENGTHS)
        parts[4::7] = keys
        key_bytes = by_key_size(_FIELD_BYTES)
    else:
        parts[3::7] = [_NULL] * count
        key_bytes = (len(_NULL),) * count
    by_value_size = itemgetter(*map(len, values))
    parts[5::7] = by_value_size(_LENGTHS)
    parts[6::7] = values
    columns = zip(times, _DELTA_BYTES[:count], key_bytes, by_value_size(_FIELD_BYTES), strict=True)
    parts[0::7] = [_STARTS[len(time) + delta + key + value] for time, delta, key, value in columns]
    return parts


def _joined(
    parts: list[bytes], count: int, base_timestamp_ms: int, max_timestamp_ms: int, base_offset: int, leader_epoch: int
) -> bytearray:
    """Join the parts to a batch.

    The header count at the start of the first part makes room for the batch header.  That of the last record is added
    at the end.
    """
    parts[0] = bytes(HEADER_BYTES) + parts[0][1:]
    parts.append(b"\x00")
    batch = bytearray().join(parts)
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
        base_timestamp_ms,
        max_timestamp_ms,
        NO_PRODUCER_ID,
        -1,
        -1,
        count,
    )
    patch_crc(batch)
    return batch
