"""Decodes a batch's records one by one, and checks their offsets."""

from __future__ import annotations

from collections.abc import Iterator

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, decode_record, decode_records
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.batches.record_limits import MAX_CONTROL_BYTES, RecordLimits
from kraft_trio.storage.batches.record_window import RecordWindow
from kraft_trio.storage.disk.disk import Buffer


def control_records(buffer: Buffer, position: int, header: BatchHeader) -> list[Record]:
    """The records of a control batch.  Offsets must rise and belong to the batch; compaction may have removed some.

    Raises ProtocolError otherwise, and whenever `decode_records` does.
    """
    records = decode_records(buffer, position, header, MAX_CONTROL_BYTES)
    least = header.base_offset
    for record in records:
        least = _next_offset(record, least, header)
    return records


def sized_records(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[tuple[Record, int]]:
    """The records of a batch of any size, one at a time with its bytes; offsets as in `control_records`.

    The error may follow some records.
    """
    window = RecordWindow(buffer, position, header, RecordLimits(None, DEFAULT_MAX_DECOMPRESSED_BYTES))
    least = header.base_offset
    for _ in range(header.record_count):
        for _ in window.fill():
            pass
        start = window.at
        record, window.at = decode_record(window.data, start, header)
        least = _next_offset(record, least, header)
        yield record, window.at - start
    for _ in window.end():
        pass


def _next_offset(record: Record, least: int, header: BatchHeader) -> int:
    """The lowest allowed offset of the next record.  Raises ProtocolError if this record's offset is wrong."""
    if not least <= record.offset <= header.last_offset:
        raise ProtocolError(
            f"batch at offset {header.base_offset}: offset delta {record.offset - header.base_offset} of a record, "
            f"expected one from {least - header.base_offset} to {header.last_offset_delta}"
        )
    return record.offset + 1
