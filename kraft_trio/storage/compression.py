"""Compressed records: gzip, snappy, lz4 and zstd, with a cap on what they may grow to.

Nothing is allocated beyond the cap, whatever a batch claims or does: a few bytes of it can stand for gigabytes.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import lz4.frame
import zstandard

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batch_header import Compression

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""What snappy-java frames blocks with, and Kafka's clients after it: magic, version, compatible version."""
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
_GZIP_WINDOW = 31
_ZSTD_MAX_WINDOW_BYTES = 128 * 1024 * 1024


class _AboveCap(Exception):
    """The decompressed records are more than they may be."""


def compress(compression: Compression, data: bytes) -> bytes:
    """Compress as Kafka's own clients do."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            codec = zlib.compressobj(wbits=_GZIP_WINDOW)
            return codec.compress(data) + codec.flush()
        case Compression.SNAPPY:
            parts = [_XERIAL_HEADER]
            for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
                block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
                parts += (_BLOCK_LENGTH.pack(len(block)), block)
            return b"".join(parts)
        case Compression.LZ4:
            return bytes(lz4.frame.compress(data))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor().compress(data)


def decompress(compression: Compression, data: bytes, max_bytes: int) -> bytes:
    """Decompress to `max_bytes` at most.

    Raises ProtocolError for data that the codec does not accept, and, naming the cap, for more than `max_bytes`.
    """
    try:
        match compression:
            case Compression.NONE:
                decompressed = data
            case Compression.GZIP:
                decompressed = _gzip(data, max_bytes)
            case Compression.SNAPPY:
                decompressed = _snappy(data, max_bytes)
            case Compression.LZ4:
                decompressed = _lz4(data, max_bytes)
            case Compression.ZSTD:
                decompressed = _zstd(data, max_bytes)
        if len(decompressed) > max_bytes:
            raise _AboveCap
    except _AboveCap:
        raise ProtocolError(
            f"{compression.name.lower()} records: more than {max_bytes} bytes when decompressed"
        ) from None
    except (zlib.error, cramjam.DecompressionError, RuntimeError, ValueError, EOFError, zstandard.ZstdError) as error:
        raise ProtocolError(f"{compression.name.lower()} records: {error}") from None
    return decompressed


def _gzip(data: bytes, max_bytes: int) -> bytes:
    parts = []
    left = max_bytes + 1
    while data and left > 0:
        codec = zlib.decompressobj(wbits=_GZIP_WINDOW)
        part = codec.decompress(data, left)
        parts.append(part)
        left -= len(part)
        if not codec.eof and left > 0:
            raise EOFError("cut")
        data = codec.unused_data
    return b"".join(parts)


def _snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, max_bytes)
    parts = []
    position = len(_XERIAL_HEADER)
    left = max_bytes
    while position < len(data):
        if len(data) - position < 4:
            raise EOFError("cut")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise EOFError(f"a block of {length} bytes, {len(data) - position} are left")
        part = _snappy_block(data[position : position + length], left)
        parts.append(part)
        left -= len(part)
        position += length
    return b"".join(parts)


def _snappy_block(block: bytes, max_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > max_bytes:
        raise _AboveCap
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: bytes, max_bytes: int) -> bytes:
    parts = []
    left = max_bytes + 1
    while data and left > 0:
        codec = lz4.frame.LZ4FrameDecompressor()
        part = codec.decompress(data, max_length=left)
        parts.append(part)
        left -= len(part)
        if not codec.eof and left > 0:
            raise EOFError("cut")
        data = codec.unused_data if codec.eof else b""
    return b"".join(parts)


def _zstd(data: bytes, max_bytes: int) -> bytes:
    # A frame that is cut just ends early here; the records in it then fail to decode.
    codec = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    with codec.stream_reader(data, read_across_frames=True) as reader:
        return reader.read(max_bytes + 1)
