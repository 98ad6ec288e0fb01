"""Whether the records of a batch are sound, found out without making them: what a leader asks of every produced batch.

As strict as `decode_records`, and stricter in one thing: a record's offset delta must be its place in the batch, since
offsets are counted by the batch header alone.  Ordinary records, those with lengths and deltas of one or two bytes, are
walked in place; any other is left to the decoder, which judges it and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batch import decode_record, record_bytes
from kraft_trio.storage.batch_header import COMPRESSION_ATTRIBUTES, BatchHeader
from kraft_trio.storage.disk import Buffer
from kraft_trio.storage.record_limits import RecordLimits
from kraft_trio.storage.record_window import RecordWindow

_NOT_ORDINARY = -1
_SMALL_RECORDS: Final = 256
_SLICE_RECORDS: Final = 64
_STEP_WORK: Final = 256
"""In records and headers; one that is left to the decoder counts as `_DECODED_WORK`."""
_DECODED_WORK: Final = 8


def check_records(buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int) -> None:
    """Check the records of the batch at `position`, whose CRC the caller has checked.

    Raises ProtocolError for whatever `decode_records` raises it, and where the offset deltas are not 0, 1, 2 and so on.
    Decompressed, the records may take `max_decompressed_bytes` at most.
    """
    if not is_small_and_sound(buffer, position, header):
        for _ in check_steps(buffer, position, header, RecordLimits(max_decompressed_bytes, max_decompressed_bytes)):
            pass


def is_small_and_sound(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is small, not compressed and has nothing but sound, ordinary records within all limits.

    What a leader asks first: most batches are, and it takes some microseconds.  Of others `check_steps` says whether
    they are sound.
    """
    count = header.record_count
    if header.attributes & COMPRESSION_ATTRIBUTES or count > _SMALL_RECORDS:
        return False
    data, at = record_bytes(buffer, position, header, 0)
    index, at, _ = _walk_ordinary(data, at, 0, count)
    return index == count and at == len(data)


def check_steps(buffer: Buffer, position: int, header: BatchHeader, limits: RecordLimits) -> Iterator[None]:
    """As `check_records`, in steps that take well under a millisecond each, but for a snappy block.

    Memory is bounded by the largest record and a chunk.  Raises ProtocolError also for what exceeds the limits.
    """
    window = RecordWindow(buffer, position, header, limits)
    count = header.record_count
    index = work = header_count = 0
    while index < count:
        yield from window.fill()
        first = index
        index, window.at, headers = _walk_ordinary(window.data, window.at, index, min(count, index + _SLICE_RECORDS))
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


def _walk_ordinary(data: bytes, at: int, first: int, count: int) -> tuple[int, int, int]:
    """Index and position of the first record, from index `first` on, that is not sound, ordinary and all there; or of
    the end.  And how many headers are before it.

    The hot loop of a leader: variable-length integers are read where they stand, zigzag as they are, so that an even
    one is twice its value and 1 stands for null.  That a field's length goes on after two bytes need not be looked at:
    the two alone then stand for 8192 bytes or more, and an ordinary record has ended before that.
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
            # The attributes byte says nothing; the timestamp delta may be any.
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
    """Where the headers end whose count stands before `at`; `_NOT_ORDINARY` where the decoder has to judge."""
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
