"""Decodes the records of committed batches of any size, in lists for the application.

A committed batch of any size must be readable: Apache Kafka, which may have written it, sets no bounds.  A batch that
takes long is decoded on a thread, in memory that does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain, islice
from typing import Final

from kraft_trio.storage.batches.batch import BatchHeader, Record, decode_records
from kraft_trio.storage.batches.batch_header import COMPRESSION_ATTRIBUTES
from kraft_trio.storage.batches.record_chunks import record_chunks
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.disk.record_thread import OffLoop

MOST_RECORDS: Final = 4096
"""Limit for one list.  A batch with fewer records, and fewer bytes than `MOST_BYTES`, is one list."""
MOST_BYTES: Final = 4 * 1024 * 1024
SMALL_RECORDS: Final = 256
SMALL_BYTES: Final = 64 * 1024
_COMPRESSED_BYTES_AT_ONCE: Final = 16 * 1024
_CHUNKS_AT_ONCE: Final = 4
_CHUNKS_A_JOB: Final = 8


class RecordDecoder:
    """Decodes batches; has no state."""

    def __init__(self, off_loop: OffLoop, max_record_bytes: int) -> None:
        self._off_loop = off_loop
        self._max_record_bytes = max_record_bytes

    def at_once(self, batch: Buffer, header: BatchHeader) -> list[Record] | None:
        """The records of a batch that is quickly decoded, as most are; None for any other batch.

        Raises ProtocolError for records that cannot be read.
        """
        if header.attributes & COMPRESSION_ATTRIBUTES:
            return None
        if header.record_count > SMALL_RECORDS or (header.record_count > 1 and len(batch) > SMALL_BYTES):
            return None
        return decode_records(batch, 0, header)

    async def lists(self, batch: Buffer, header: BatchHeader) -> AsyncGenerator[list[Record], None]:
        """The records of any batch, in one or more lists that are not empty.

        Raises ProtocolError for records that cannot be read, possibly after it has yielded others.
        """
        records: list[Record] = []
        size = 0
        async with aclosing(self._parts(batch, header)) as parts:
            async for more, more_bytes in parts:
                if records and (len(records) + len(more) > MOST_RECORDS or size + more_bytes > MOST_BYTES):
                    yield records
                    records, size = [], 0
                records += more
                size += more_bytes
        if records:
            yield records

    async def check(self, batch: Buffer, header: BatchHeader) -> None:
        """Decode all records and drop them.  Raises ProtocolError if any cannot be read."""
        async with aclosing(self._parts(batch, header)) as parts:
            async for _ in parts:
                pass

    async def _parts(self, batch: Buffer, header: BatchHeader) -> AsyncGenerator[tuple[list[Record], int], None]:
        """Some records at a time, and roughly their bytes.  The first ones come from the event loop if cheap."""
        chunks = record_chunks(batch, 0, header, self._max_record_bytes)
        if not header.attributes & COMPRESSION_ATTRIBUTES or len(batch) <= _COMPRESSED_BYTES_AT_ONCE:
            part = _next(chunks, _CHUNKS_AT_ONCE)
            if part is None:
                return
            yield part
        while (part := await self._off_loop.run(partial(_next, chunks, _CHUNKS_A_JOB))) is not None:
            yield part


def _next(chunks: Iterator[list[Record]], count: int) -> tuple[list[Record], int] | None:
    """Some more records, and roughly their bytes; None at the end."""
    some = list(islice(chunks, count))
    if not some:
        return None
    records = list(chain.from_iterable(some))
    return records, sum(len(record.key or b"") + len(record.value or b"") for record in records)
