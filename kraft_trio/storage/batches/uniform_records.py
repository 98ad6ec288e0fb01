"""Steps over runs of records that differ only in their offset, their time and the bytes of their fields.

Most producers write such runs: one size, few milliseconds, no headers.  What must be the same in all records of a run
is in columns, `length` bytes apart.  A slice takes a whole column, so that checking a run takes a dozen operations
and not some for each record.
"""

from __future__ import annotations

from typing import Final

SHORTEST_RUN: Final = 8
"""The shortest run for which this takes less time than the records one by one."""
_ONE_BYTE: Final = 64
"""Below this index, a record's offset delta takes one byte."""
_TWO_BYTES: Final = 8192

_ONE: Final = bytes(index << 1 for index in range(_ONE_BYTE))
_LOW: Final = bytes(index << 1 & 0x7F | 0x80 for index in range(_TWO_BYTES))
_HIGH: Final = bytes(index >> 6 for index in range(_TWO_BYTES))
"""The bytes of the offset deltas, by index."""
_CONTINUED: Final = bytes(range(0x80, 0x100))


def end_of_uniform(data: bytes, at: int, first: int, count: int) -> tuple[int, int]:
    """The index and position after the run of sound records that begins at `at` with index `first`.

    It ends before index `count` at the latest; `first` and `at` are returned if there is no run.  As for every sound
    record, offset deltas are indexes in the batch, and any time is valid.
    """
    try:
        length = _length(data, at)
        records = _records_of_run(data, at, length, first, count)
    except IndexError:
        return first, at
    return first + records, at + records * length


def _records_of_run(data: bytes, at: int, length: int, first: int, count: int) -> int:
    """Count the records of the run, which take `length` bytes each; 0 without a run.  May raise IndexError instead."""
    if not length:
        return 0
    has_one_byte = first < _ONE_BYTE
    records = min((len(data) - at) // length, min(count, _ONE_BYTE if has_one_byte else _TWO_BYTES) - first)
    if records < SHORTEST_RUN:
        return 0
    time = at + (2 if data[at] < 128 else 3)
    time_bytes = 1 if data[time] < 128 else 2
    delta = time + time_bytes
    key = delta + (1 if has_one_byte else 2)
    value = _end_of_field(data, key)
    headers = _end_of_field(data, value)
    if data[headers] or headers + 1 != at + length:
        return 0

    end = at + records * length
    sizes = (at, key, value)
    for column in (*sizes, headers, *[size + 1 for size in sizes if data[size] >= 128]):
        if data[column:end:length].count(data[column]) != records:
            return 0
    for column, expected in enumerate((_ONE,) if has_one_byte else (_LOW, _HIGH), delta):
        if data[column:end:length] != expected[first : first + records]:
            return 0
    if time_bytes == 2 and data[time:end:length].translate(None, _CONTINUED):
        return 0
    return records if data[delta - 1 : end : length].isascii() else 0


def _length(data: bytes, at: int) -> int:
    """How many bytes a record takes whose length has one or two bytes; 0 for others."""
    size = data[at]
    if size & 1:
        return 0
    if size < 128:
        return 1 + (size >> 1)
    high = data[at + 1]
    return 0 if high >= 128 else 2 + (size - 128 + (high << 7) >> 1)


def _end_of_field(data: bytes, at: int) -> int:
    """Where a key or value ends; the end of the data if its size is negative.

    A size that is null, or has one or two bytes.  One with more means a field that is longer than any record of a run.
    """
    size = data[at]
    if size == 1:
        return at + 1
    if size & 1:
        return len(data)
    if size < 128:
        return at + 1 + (size >> 1)
    return at + 2 + (size + (data[at + 1] - 1 << 7) >> 1)
