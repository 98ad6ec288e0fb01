"""Decompresses records chunk by chunk, so that a few bytes that expand to gigabytes cannot exhaust memory.

Each chunk costs a bounded amount of work for any data.  The input is fed in small pieces, so that a codec does not copy
its unconsumed input again and again.  Members or frames without content yield an empty chunk now and then.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import cramjam
import lz4.frame
import zstandard

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch_header import Compression

CHUNK_BYTES: Final = 64 * 1024
"""The most bytes in a chunk; only a snappy block, which is decompressed as a whole, may exceed it."""
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
"""Begins the framing that snappy-java, and so Kafka's clients, put around blocks.  Two version numbers follow."""
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_LENGTH: Final = struct.Struct(">i")

_PIECE_BYTES: Final = 16 * 1024
_EMPTY_CHUNKS: Final = 32
"""Every 32nd empty chunk is passed on, so that the caller can pause; the others are left out."""
_GZIP_WINDOW: Final = 31
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
"""A bit of the byte after the magic."""
_ZSTD_END_CONTENT: Final = b"\0"
_ZSTD_END: Final = zstandard.ZstdCompressor().compress(_ZSTD_END_CONTENT)
_ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
"""What zstd's highest level needs.  Memory is touched only as far as content has been produced."""
_SNAPPY_MOST_EXPANSION: Final = 22
"""Three bytes of snappy expand to at most 64."""
_SNAPPY_LENGTH_BYTES: Final = 64
"""Allows for the length in front of a block, so that a tiny block is accepted."""


def decompressed_chunks(
    compression: Compression, data: bytes, max_block_bytes: int, *, as_kafka_reads: bool = False
) -> Iterator[bytes]:
    """The content of `data`, in order; a chunk may be empty.

    Raises ProtocolError if the codec does not accept the data, or if a snappy block exceeds `max_block_bytes`.  With
    `as_kafka_reads`, also raises it if Kafka's Java clients do not accept the data.
    """
    empty = 0
    try:
        for chunk in _chunks(compression, data, max_block_bytes, as_kafka_reads):
            empty += not chunk
            if chunk or empty % _EMPTY_CHUNKS == 0:
                yield chunk
    except (zlib.error, cramjam.DecompressionError, RuntimeError, ValueError, EOFError, zstandard.ZstdError) as error:
        raise ProtocolError(f"{compression.name.lower()} records: {error}") from None


def _chunks(compression: Compression, data: bytes, max_block_bytes: int, as_kafka_reads: bool) -> Iterator[bytes]:
    match compression:
        case Compression.NONE:
            return iter((data,))
        case Compression.GZIP:
            return _gzip(data)
        case Compression.SNAPPY:
            return _snappy(data, max_block_bytes)
        case Compression.LZ4:
            return _lz4(data, as_kafka_reads)
        case Compression.ZSTD:
            return _zstd(data, as_kafka_reads)


def _gzip(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        codec = zlib.decompressobj(wbits=_GZIP_WINDOW)
        while not codec.eof:
            piece = codec.unconsumed_tail or data[position : position + _PIECE_BYTES]
            if not codec.unconsumed_tail:
                position += len(piece)
            chunk = codec.decompress(piece, CHUNK_BYTES)
            if not piece and not chunk:
                raise EOFError("cut")
            yield chunk
        position -= len(codec.unused_data)


def _lz4(data: bytes, as_kafka_reads: bool) -> Iterator[bytes]:
    if as_kafka_reads and data:
        _refuse_unusual_lz4(data)
    position = 0
    codec = lz4.frame.LZ4FrameDecompressor()
    while position < len(data):
        while not codec.eof:
            piece = b""
            if codec.needs_input:
                piece = data[position : position + _PIECE_BYTES]
                position += len(piece)
                if not piece:
                    raise EOFError("cut")
            yield codec.decompress(piece, CHUNK_BYTES)
        position -= len(codec.unused_data or b"")
        if as_kafka_reads and position < len(data):
            raise ValueError(f"{len(data) - position} bytes follow the first frame, which Kafka ignores")
        codec.reset()


def _refuse_unusual_lz4(data: bytes) -> None:
    if not data.startswith(_LZ4_MAGIC):
        raise ValueError("no frame at the start, which Kafka expects")
    if not data[len(_LZ4_MAGIC) : len(_LZ4_MAGIC) + 1] or not data[len(_LZ4_MAGIC)] & _LZ4_INDEPENDENT_BLOCKS:
        raise ValueError("linked blocks, Kafka reads only independent ones")


def _zstd(data: bytes, as_kafka_reads: bool) -> Iterator[bytes]:
    # A frame that is cut just ends early here; the records in it then fail to decode.
    codec = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    # Only its checksum may be missing without that.  A frame behind it can then no longer be read.
    source = data + _ZSTD_END if as_kafka_reads else data
    last = b""
    with codec.stream_reader(source, read_across_frames=True) as reader:
        while chunk := reader.read(CHUNK_BYTES):
            yield last
            last = chunk
    if not as_kafka_reads:
        yield last
    elif last[-1:] == _ZSTD_END_CONTENT:
        yield last[:-1]
    else:
        raise EOFError("cut")


def _snappy(data: bytes, max_block_bytes: int) -> Iterator[bytes]:
    if not data.startswith(XERIAL_MAGIC):
        yield _snappy_block(data, max_block_bytes)
        return
    position = len(XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < 4:
            raise EOFError("cut")
        (length,) = XERIAL_BLOCK_LENGTH.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise EOFError(f"a block of {length} bytes, {len(data) - position} are left")
        yield _snappy_block(data[position : position + length], max_block_bytes)
        position += length


def _snappy_block(block: bytes, max_block_bytes: int) -> bytes:
    length = cramjam.snappy.decompress_raw_len(block)
    if length > max_block_bytes:
        raise AboveCapError(Compression.SNAPPY, max_block_bytes)
    if length > _SNAPPY_MOST_EXPANSION * len(block) + _SNAPPY_LENGTH_BYTES:
        raise EOFError(f"a block of {len(block)} bytes that claims {length}")
    return bytes(cramjam.snappy.decompress_raw(block))


class AboveCapError(ProtocolError):
    """The decompressed records are more than they may be."""

    def __init__(self, compression: Compression, max_bytes: int) -> None:
        super().__init__(f"{compression.name.lower()} records: more than {max_bytes} bytes when decompressed")
