"""A window over the bytes of a batch's records.  It decompresses them on demand and drops those already read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import record_bytes
from kraft_trio.storage.batches.batch_header import COMPRESSION_ATTRIBUTES, HEADER_BYTES, BatchHeader
from kraft_trio.storage.batches.decompression import AboveCapError, decompressed_chunks
from kraft_trio.storage.batches.record_limits import RecordLimits
from kraft_trio.storage.batches.varint import decode_varint
from kraft_trio.storage.disk.disk import Buffer

_LENGTH_BYTES: Final = 5
"""A record's length takes no more."""


class LargeRecordError(ProtocolError):
    """A single record takes more bytes than one may take."""


class RecordWindow:
    """The records' bytes in `data`, from `at` on.  The window may end inside a record.

    For a compressed batch it holds at most a record and a chunk, otherwise the batch itself.
    """

    def __init__(self, buffer: Buffer, position: int, header: BatchHeader, limits: RecordLimits) -> None:
        """Raises ProtocolError if the batch is incomplete, or claims more records than allowed or possible."""
        if limits.max_records is not None and header.record_count > limits.max_records:
            raise ProtocolError(
                f"batch at offset {header.base_offset}: {header.record_count} records, "
                f"at most {limits.max_records} allowed"
            )
        self._header = header
        self._limits = limits
        self._left_bytes = limits.max_bytes
        self._chunks: Iterator[bytes] = iter(())
        if not header.attributes & COMPRESSION_ATTRIBUTES:
            self.data, self.at = record_bytes(buffer, position, header, 0)
            return
        end = position + header.size_in_bytes
        if end > len(buffer):
            raise ProtocolError(
                f"batch at offset {header.base_offset}: cut, {len(buffer) - position} of its bytes are left"
            )
        content = bytes(buffer[position + HEADER_BYTES : end])
        self.data, self.at = b"", 0
        # A client may compress all records into one snappy block.
        max_block_bytes = limits.max_record_bytes if limits.max_bytes is None else limits.max_bytes
        self._chunks = decompressed_chunks(
            header.compression, content, max_block_bytes, as_kafka_reads=limits.as_kafka_reads
        )

    def fill(self) -> Iterator[None]:
        """Load the whole record at `at`, in steps.  Loads less only at the end of the content.

        Raises ProtocolError for data that the codec rejects, and for more bytes than the limits allow; LargeRecordError
        if the record alone has too many.
        """
        yield from self._bring(_LENGTH_BYTES)
        if self.at >= len(self.data):
            return
        length, start = decode_varint(self.data, self.at)
        if length > self._limits.max_record_bytes:
            raise LargeRecordError(
                f"batch at offset {self._header.base_offset}: a record of {length} bytes, "
                f"at most {self._limits.max_record_bytes} allowed"
            )
        yield from self._bring(start - self.at + length)

    def _bring(self, wanted: int) -> Iterator[None]:
        """Load at least `wanted` bytes from `at` on, if there are as many."""
        have = len(self.data) - self.at
        if have >= wanted:
            return
        content: io.BytesIO | None = None
        for chunk in self._chunks:
            if self._left_bytes is not None:
                self._left_bytes -= len(chunk)
                if self._left_bytes < 0:
                    assert self._limits.max_bytes is not None, "a limit that is not set was exceeded"
                    raise AboveCapError(self._header.compression, self._limits.max_bytes)
            if content is None:
                content = io.BytesIO()
                content.write(self.data[max(0, self.at) :])
            content.write(chunk)
            have += len(chunk)
            if have >= wanted:
                break
            yield
        if content is not None:
            self.data, self.at = content.getvalue(), max(0, self.at - len(self.data))

    def end(self) -> Iterator[None]:
        """Check the end after all records.  Raises ProtocolError if bytes follow or are missing."""
        yield from self._bring(1)
        left = len(self.data) - self.at
        if left:
            raise ProtocolError(f"batch at offset {self._header.base_offset}: {left} bytes follow its last record")
