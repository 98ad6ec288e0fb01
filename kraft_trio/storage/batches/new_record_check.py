"""Checks a record before it is encoded, and computes how large it can become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.batches.record_limits import MAX_HEADERS, RECORD_OVERHEAD_BYTES

_FIELD_OVERHEAD_BYTES: Final = 10
"""The largest size of the length of a key, a header's name or a header's value, or of a record's own timestamp."""
_MAX_TIMESTAMP_MS: Final = 2**62
"""Timestamps in one batch must not be further apart than a varint can express."""


def check_new_record(record: NewRecord) -> None:
    """Raise ValueError, which names the field, if the record cannot be part of a batch."""
    for name, field in (("key", record.key), ("value", record.value)):
        if field is not None and not isinstance(field, bytes):
            raise ValueError(f"{name}: {type(field).__name__} given, bytes or None expected")
    if len(record.headers) > MAX_HEADERS:
        raise ValueError(f"headers: {len(record.headers)} given, {MAX_HEADERS} at most expected")
    for header in record.headers:
        try:
            name, content = header
            name.encode()
        except (TypeError, ValueError, AttributeError):
            raise ValueError(f"headers: {header!r} given, pairs of a name and bytes expected") from None
        if content is not None and not isinstance(content, bytes):
            raise ValueError(f"header {name!r}: {type(content).__name__} given, bytes or None expected")
    timestamp_ms = record.timestamp_ms
    if timestamp_ms is not None and not (isinstance(timestamp_ms, int) and -1 <= timestamp_ms <= _MAX_TIMESTAMP_MS):
        raise ValueError(f"timestamp_ms: {timestamp_ms!r} given, milliseconds since 1970 expected")


def largest_record_size(record: NewRecord) -> int:
    """The largest size that the record can have in a batch."""
    return RECORD_OVERHEAD_BYTES + len(record.value or b"") + _size_beside_value(record)


def largest_size(records: Sequence[NewRecord]) -> tuple[int, int]:
    """The largest size that the records can have in a batch, and the number of their headers."""
    size, header_count = RECORD_OVERHEAD_BYTES * len(records), 0
    for record in records:
        if record.value is not None:
            size += len(record.value)
        if record.key is not None or record.headers or record.timestamp_ms is not None:
            size += _size_beside_value(record)
            header_count += len(record.headers)
    return size, header_count


def _size_beside_value(record: NewRecord) -> int:
    size = 0 if record.key is None else _FIELD_OVERHEAD_BYTES + len(record.key)
    if record.timestamp_ms is not None:
        size += _FIELD_OVERHEAD_BYTES
    for name, value in record.headers:
        size += 2 * _FIELD_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size
