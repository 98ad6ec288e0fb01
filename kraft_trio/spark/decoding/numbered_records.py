"""The records of a batch one by one, each at an offset that the batch has."""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batch import Record, decode_records
from kraft_trio.storage.batch_header import BatchHeader
from kraft_trio.storage.disk import Buffer


def numbered_records(buffer: Buffer, position: int, header: BatchHeader) -> list[Record]:
    """As `decode_records`, but offsets must rise and be the batch's own; there may be fewer than it has, as compaction
    leaves them.

    Raises ProtocolError for others, and where `decode_records` does.
    """
    records = decode_records(buffer, position, header)
    least = header.base_offset
    for record in records:
        if not least <= record.offset <= header.last_offset:
            raise ProtocolError(
                f"batch at offset {header.base_offset}: offset delta {record.offset - header.base_offset} of a record, "
                f"expected one from {least - header.base_offset} to {header.last_offset_delta}"
            )
        least = record.offset + 1
    return records
