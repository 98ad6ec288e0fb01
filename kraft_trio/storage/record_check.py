"""Whether the records of a batch are sound, found out without making them: what a leader asks of every produced batch.

As strict as `decode_records`, and stricter in one thing: a record's offset delta must be its place in the batch, since
offsets are counted by the batch header alone.  Ordinary records, those with lengths and deltas of one or two bytes, are
walked in place; any other is left to the decoder, which judges it and says what is wrong.
"""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batch import decode_record, record_bytes
from kraft_trio.storage.batch_header import BatchHeader
from kraft_trio.storage.disk import Buffer

_NOT_ORDINARY = -1


def check_records(buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int) -> None:
    """Check the records of the batch at `position`, whose CRC the caller has checked.

    Raises ProtocolError for whatever `decode_records` raises it, and where the offset deltas are not 0, 1, 2 and so on.
    Decompressed, the records may take `max_decompressed_bytes` at most.
    """
    data, at = record_bytes(buffer, position, header, max_decompressed_bytes)
    count = header.record_count
    index, at = _walk_ordinary(data, at, 0, count)
    while index < count:
        record, at = decode_record(data, at, header)
        if record.offset != header.base_offset + index:
            raise ProtocolError(
                f"batch at offset {header.base_offset}: offset delta {record.offset - header.base_offset} of a record, "
                f"expected its place in the batch, {index}"
            )
        index, at = _walk_ordinary(data, at, index + 1, count)
    if at != len(data):
        raise ProtocolError(f"batch at offset {header.base_offset}: {len(data) - at} bytes follow its last record")


def _walk_ordinary(data: bytes, at: int, first: int, count: int) -> tuple[int, int]:
    """Index and position of the first record, from index `first` on, that is not sound and ordinary; or of the end.

    The hot loop of a leader: variable-length integers are read where they stand, zigzag as they are, so that an even
    one is twice its value and 1 stands for null.  That a field's length goes on after two bytes need not be looked at:
    the two alone then stand for 8192 bytes or more, and an ordinary record has ended before that.
    """
    index = first
    start = at
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
            # Nothing above looked at the end of the record: positions only grow, so past it they do not come back.
            if at != end:
                break
            index += 1
        else:
            return index, at
    except IndexError:
        pass
    return index, start


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
