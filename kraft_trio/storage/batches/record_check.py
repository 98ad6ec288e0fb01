"""Checks the records of a batch without creating Record objects.  A leader checks every produced batch.

As strict as `decode_records`, and stricter in one point: a record's offset delta must be its index in the batch,
because only the batch header counts offsets.  Ordinary records, whose lengths and deltas take one or two bytes, are
walked in place.  The decoder judges all others, and says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import decode_record, record_bytes
from kraft_trio.storage.batches.batch_header import COMPRESSION_ATTRIBUTES, BatchHeader
from kraft_trio.storage.batches.record_limits import RecordLimits
from kraft_trio.storage.batches.record_window import RecordWindow
from kraft_trio.storage.batches.uniform_records import SHORTEST_RUN, end_of_uniform
from kraft_trio.storage.disk.disk import Buffer

_NOT_ORDINARY = -1
_SMALL_RECORDS: Final = 256
_SLICE_RECORDS: Final = 64
_STEP_WORK: Final = 256
"""In records and headers; a record that the decoder judges counts as `_DECODED_WORK`."""
_DECODED_WORK: Final = 8
_ORDINARY_DELTA_MS: Final = 8191
"""The most that an ordinary record is later than its batch's base timestamp."""


def check_records(buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int) -> None:
    """Check the records of the batch at `position`, whose CRC the caller has checked.

    Raises ProtocolError if `decode_records` would, and if the offset deltas are not 0, 1, 2 and so on.  Decompressed,
    the records may take `max_decompressed_bytes` at most.
    """
    if not is_small_and_sound(buffer, position, header):
        for _ in check_steps(buffer, position, header, RecordLimits(max_decompressed_bytes, max_decompressed_bytes)):
            pass


def is_small_and_sound(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is small and uncompressed, and all its records are sound, ordinary and within all limits.

    A leader tries this first: it takes some microseconds, and most batches pass.  `check_steps` judges the others.
    """
    count = header.record_count
    if header.attributes & COMPRESSION_ATTRIBUTES or count > _SMALL_RECORDS:
        return False
    data, at = record_bytes(buffer, position, header, 0)
    index, at, _ = _walk(data, at, 0, count)
    return index == count and at == len(data)


def may_be_honest_about_time(header: BatchHeader) -> bool:
    """Whether ordinary records can be about as late as the batch's maximum timestamp; `check_steps` looks at others."""
    return header.max_timestamp_ms - header.base_timestamp_ms <= _ORDINARY_DELTA_MS or header.has_log_append_time


def check_steps(buffer: Buffer, position: int, header: BatchHeader, limits: RecordLimits) -> Iterator[None]:
    """Like `check_records`, in steps of well under a millisecond each; only a snappy block may take longer.

    Uses the memory of the largest record and one chunk.  Also raises ProtocolError if a limit is exceeded.
    """
    window = RecordWindow(buffer, position, header, limits)
    count = header.record_count
    index = work = header_count = 0
    latest_ms = header.base_timestamp_ms + _ORDINARY_DELTA_MS
    while index < count:
        yield from window.fill()
        first = index
        index, window.at, headers = _walk(window.data, window.at, index, min(count, index + _SLICE_RECORDS))
        work += index - first + headers
        if index == first:
            # A view: a large value is looked at, not copied.
            data = cast(bytes, memoryview(window.data))
            record, window.at = decode_record(data, window.at, header, limits.max_headers)
            if record.offset != header.base_offset + index:
                raise ProtocolError(
                    f"batch at offset {header.base_offset}: offset delta {record.offset - header.base_offset} of a "
                    f"record, expected its place in the batch, {index}"
                )
            index += 1
            latest_ms = max(latest_ms, record.timestamp_ms)
            headers = len(record.headers)
            work += _DECODED_WORK + headers
        header_count += headers
        if limits.max_batch_headers is not None and header_count > limits.max_batch_headers:
            raise ProtocolError(
                f"batch at offset {header.base_offset}: more than {limits.max_batch_headers} record headers"
            )
        if work >= _STEP_WORK:
            work = 0
            yield
    yield from window.end()
    if limits.honest_time and header.max_timestamp_ms > latest_ms and not header.has_log_append_time:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: maximum timestamp {header.max_timestamp_ms}, but no record is "
            f"later than {latest_ms}"
        )


def _walk(data: bytes, at: int, first: int, count: int) -> tuple[int, int, int]:
    """Walk as `_walk_ordinary` does, with less time for records that are alike."""
    index = first
    while count - index >= SHORTEST_RUN and (run := end_of_uniform(data, at, index, count))[0] > index:
        index, at = run
    return _walk_ordinary(data, at, index, count)


def _walk_ordinary(data: bytes, at: int, first: int, count: int) -> tuple[int, int, int]:
    """Walk from the record with index `first` to the first that is not sound, ordinary and complete, or to the end.

    Returns that record's index and position, and the number of headers before it.  This is a leader's hot loop, so it
    reads variable-length integers in place without undoing zigzag: an even one is twice its value, and 1 means null.
    It need not check whether a field's length continues after two bytes: those two alone would mean 8192 bytes or more,
    and an ordinary record is shorter.
    """
    index = first
    start = at
    headers = 0
    try:
        while index < count:
            start = at
            size = data[at]
            at += 1
            if size >= 128:
                high = data[at]
                if high >= 128:
                    break
                size += (high - 1) << 7
                at += 1
            if size & 1:
                break
            end = at + (size >> 1)
            # The attributes byte has no meaning; any timestamp delta is valid.
            if data[at + 1] < 128:
                at += 2
            elif data[at + 2] < 128:
                at += 3
            else:
                break
            delta = data[at]
            at += 1
            if delta >= 128:
                high = data[at]
                if high >= 128:
                    break
                delta += (high - 1) << 7
                at += 1
            if delta != index << 1:
                break
            size = data[at]
            at += 1
            if size != 1:
                if size >= 128:
                    size += (data[at] - 1) << 7
                    at += 1
                if size & 1:
                    break
                at += size >> 1
            size = data[at]
            at += 1
            if size != 1:
                if size >= 128:
                    size += (data[at] - 1) << 7
                    at += 1
                if size & 1:
                    break
                at += size >> 1
            header_count = data[at]
            at += 1
            if header_count:
                at = _ordinary_headers_end(data, at, header_count)
                headers += header_count >> 1
            # Nothing above looked at the end of the record: positions only grow, so past it they do not come back.
            if at != end:
                break
            index += 1
        else:
            return index, at, headers
    except IndexError:
        pass
    return index, start, headers


def _ordinary_headers_end(data: bytes, at: int, zigzag_count: int) -> int:
    """Where the headers end whose count is just before `at`; `_NOT_ORDINARY` if the decoder has to judge."""
    if zigzag_count & 1 or zigzag_count >= 128:
        return _NOT_ORDINARY
    for _ in range(zigzag_count >> 1):
        size = data[at]
        at += 1
        if size & 1 or size >= 128 or not data[at : at + (size >> 1)].isascii():
            return _NOT_ORDINARY
        at += size >> 1
        size = data[at]
        at += 1
        if size != 1:
            if size >= 128:
                size += (data[at] - 1) << 7
                at += 1
            if size & 1:
                return _NOT_ORDINARY
            at += size >> 1
    return at
