"""Decodes the records of a batch of any size in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from kraft_trio.storage.batches.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, decode_record
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.batches.record_limits import RecordLimits
from kraft_trio.storage.batches.record_window import RecordWindow
from kraft_trio.storage.disk.disk import Buffer

_CHUNK_RECORDS: Final = 256
_CHUNK_BYTES: Final = 256 * 1024
_HEADER_BYTES: Final = 128
"""The memory of a record header's objects, whatever its size in the batch."""


def record_chunks(buffer: Buffer, position: int, header: BatchHeader, max_record_bytes: int) -> Iterator[list[Record]]:
    """Yield the records of the batch at `position` in lists, which may be empty.  The caller has checked the CRC.

    Each list takes a few milliseconds at most, except for a large record or snappy block.  Raises ProtocolError,
    perhaps after some records, if a record is malformed, or has more bytes than
    `max_record_bytes` or more headers than MAX_READ_HEADERS.
    """
    window = RecordWindow(buffer, position, header, RecordLimits(None, max_record_bytes))
    records: list[Record] = []
    size = 0
    for _ in range(header.record_count):
        for _ in window.fill():
            yield records
            records, size = [], 0
        at = window.at
        record, window.at = decode_record(window.data, at, header)
        records.append(record)
        size += window.at - at + _HEADER_BYTES * len(record.headers)
        if size >= _CHUNK_BYTES or len(records) >= _CHUNK_RECORDS:
            yield records
            records, size = [], 0
    for _ in window.end():
        yield records
        records = []
    if records:
        yield records


async def first_record_since(timestamp_ms: int, batch: bytes, header: BatchHeader) -> tuple[int, int] | None:
    """Return offset and timestamp of the batch's first record of `timestamp_ms` or later; None without such a record.

    Lets other tasks run between chunks.  Raises ProtocolError as `record_chunks` does.
    """
    for records in record_chunks(batch, 0, header, DEFAULT_MAX_DECOMPRESSED_BYTES):
        for record in records:
            if record.timestamp_ms >= timestamp_ms:
                return record.offset, record.timestamp_ms
        await trio.lowlevel.checkpoint()
    return None
