"""Compressed records: gzip, snappy, lz4 and zstd, with a limit for the decompressed size.

Nothing is allocated beyond the limit, whatever a batch claims.
"""

from __future__ import annotations

import io
import zlib

import cramjam
import lz4.frame
import zstandard

from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.batches.decompression import (
    XERIAL_BLOCK_LENGTH,
    XERIAL_HEADER,
    AboveCapError,
    decompressed_chunks,
)

_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_WINDOW = 31


def compress(compression: Compression, data: bytes) -> bytes:
    """Compress as Kafka's own clients do."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            codec = zlib.compressobj(wbits=_GZIP_WINDOW)
            return codec.compress(data) + codec.flush()
        case Compression.SNAPPY:
            parts = [XERIAL_HEADER]
            for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
                block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
                parts += (XERIAL_BLOCK_LENGTH.pack(len(block)), block)
            return b"".join(parts)
        case Compression.LZ4:
            return bytes(lz4.frame.compress(data, block_linked=False))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor().compress(data)


def decompress(compression: Compression, data: bytes, max_bytes: int) -> bytes:
    """Decompress to `max_bytes` at most, as a whole; see `decompressed_chunks` for content of any size.

    Raises ProtocolError for data that the codec does not accept, and, naming the cap, for more than `max_bytes`.
    """
    content = io.BytesIO()
    for chunk in decompressed_chunks(compression, data, max_bytes):
        if content.tell() + len(chunk) > max_bytes:
            raise AboveCapError(compression, max_bytes)
        content.write(chunk)
    return content.getvalue()
