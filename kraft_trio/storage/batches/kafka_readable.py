"""Which record batches a replica of Apache Kafka can read (docs/reference/kafka.md#records-that-kafka-can-read).

Kafka's raft reads every batch of its log, on the way into the log and again at each start.  It ends for good at a
record that its own controllers would not write.  Facts from `org.apache.kafka.raft.internals.RecordsIterator` of Kafka
3.9 to 4.4, and from running it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import Record, decode_record, record_bytes
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, BatchHeader, Compression
from kraft_trio.storage.batches.record_limits import MAX_READ_HEADERS
from kraft_trio.storage.batches.varint import decode_varint, decode_varlong
from kraft_trio.storage.disk.disk import Buffer

MAX_DECOMPRESSED_BYTES: Final = 4 * 1024 * 1024
"""Larger compressed batches are refused rather than decompressed: the leader checks them in one step."""

_GZIP_WINDOW: Final = 31
_LZ4_FRAME_FLAGS: Final = 4
_LZ4_HAS_CONTENT_SIZE: Final = 0x08
_LZ4_HAS_DICTIONARY: Final = 0x01
_LZ4_HAS_BLOCK_CHECKSUM: Final = 0x10
_LZ4_BLOCK_SIZE: Final = struct.Struct("<I")


def why_kafka_cannot_read(buffer: Buffer, position: int, header: BatchHeader) -> str | None:
    """Return why a replica of Kafka would end at the data batch at `position`, in words for its author; None if not.

    Headers are refused altogether, although Kafka reads a record whose last header has an empty value.  Control batches
    are not judged: this library writes Kafka's own.  Raises ProtocolError for records that `decode_records` would
    refuse, or that take more than MAX_DECOMPRESSED_BYTES.
    """
    if header.compression is not Compression.NONE:
        content = bytes(buffer[position + HEADER_BYTES : position + header.size_in_bytes])
        in_parts = _why_in_parts(header.compression, content)
        if in_parts is not None:
            return in_parts
    data, at = record_bytes(buffer, position, header, MAX_DECOMPRESSED_BYTES)
    for index in range(header.record_count):
        size, start = decode_varint(data, at)
        record, at = decode_record(data, at, header, MAX_READ_HEADERS)
        delta_ms, _ = decode_varlong(data, start + 1)
        reason = _why_not(record, header, size, delta_ms)
        if reason is not None:
            return f"record {index}: {reason}"
    return None


def _why_not(record: Record, header: BatchHeader, size: int, delta_ms: int) -> str | None:
    if delta_ms:
        return f"its timestamp is {delta_ms} ms after that of its batch"
    if record.key is not None:
        return "it has a key"
    if record.value is None:
        return "its value is null"
    if not record.value:
        return "its value is empty"
    if record.headers:
        return f"it has {len(record.headers)} headers"
    if size > header.size_in_bytes:
        return f"it takes {size} bytes, more than its compressed batch, {header.size_in_bytes}"
    return None


def _why_in_parts(compression: Compression, content: bytes) -> str | None:
    """Kafka takes the end of a gzip member or lz4 block for the end of the record that lies across it."""
    if compression is Compression.GZIP:
        decompressor = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            if len(decompressor.decompress(content, MAX_DECOMPRESSED_BYTES)) >= MAX_DECOMPRESSED_BYTES:
                return f"its records take {MAX_DECOMPRESSED_BYTES} bytes or more when decompressed"
        except zlib.error as error:
            raise ProtocolError(f"gzip: {error}") from error
        return "it has several gzip members" if decompressor.unused_data else None
    if compression is Compression.LZ4 and _lz4_blocks(content) > 1:
        return "it has several lz4 blocks"
    return None


def _lz4_blocks(content: bytes) -> int:
    """Count the blocks of an lz4 frame, 2 for more than one.  Other data has none."""
    flags = content[_LZ4_FRAME_FLAGS] if len(content) > _LZ4_FRAME_FLAGS else 0
    at = 7 + (8 if flags & _LZ4_HAS_CONTENT_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
    blocks = 0
    while blocks < 2 and at + _LZ4_BLOCK_SIZE.size <= len(content):
        [size] = _LZ4_BLOCK_SIZE.unpack_from(content, at)
        if not size:
            break
        blocks += 1
        at += _LZ4_BLOCK_SIZE.size + (size & 0x7FFF_FFFF) + (4 if flags & _LZ4_HAS_BLOCK_CHECKSUM else 0)
    return blocks
