"""Decompression and record bombs: small batches, sound in header and CRC, that ask much of whoever reads their records.

Each builder gives the bytes of one whole batch of format v2, as a client may put it into Produce.  `BOMBS` names one of
each kind with every codec; a caller with a smaller cap, or in a hurry, passes smaller numbers to the builders.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import cramjam
import lz4.frame
import zstandard

from kraft_trio.storage.batches.batch_header import FRAME_BYTES, HEADER, HEADER_BYTES, MAGIC, Compression, patch_crc
from kraft_trio.storage.batches.varint import encode_varint

MEBIBYTE: Final = 1024 * 1024
CODECS: Final = tuple(codec for codec in Compression if codec is not Compression.NONE)
FRAMED_CODECS: Final = (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
"""Those whose content may be several members or frames in a row."""

_BLOCK_BYTES: Final = 64 * 1024
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_EMPTY_HEADER: Final = b"\x00\x01"
"""A record header with an empty name and a null value."""


# Batches and codecs


def batch_around(codec: Compression, content: bytes, record_count: int) -> bytes:
    """A batch whose header says so many records, around content that is compressed already."""
    header = HEADER.pack(
        0,
        HEADER_BYTES - FRAME_BYTES + len(content),
        0,
        MAGIC,
        0,
        codec,
        record_count - 1,
        0,
        0,
        -1,
        -1,
        -1,
        record_count,
    )
    batch = bytearray(header + content)
    patch_crc(batch)
    return bytes(batch)


def compressed(codec: Compression, pieces: Iterable[bytes]) -> bytes:
    """The pieces as one content; they are never all in memory at once."""
    match codec:
        case Compression.NONE:
            return b"".join(pieces)
        case Compression.GZIP:
            gzip = zlib.compressobj(wbits=31)
            return b"".join([*map(gzip.compress, pieces), gzip.flush()])
        case Compression.SNAPPY:
            blocks = (bytes(cramjam.snappy.compress_raw(piece)) for piece in pieces)
            return _XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        case Compression.LZ4:
            lz4_codec = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False)
            return b"".join([lz4_codec.begin(), *map(lz4_codec.compress, pieces), lz4_codec.flush()])
        case Compression.ZSTD:
            zstd = zstandard.ZstdCompressor(level=3).compressobj()
            return b"".join([*map(zstd.compress, pieces), zstd.flush()])


def _repeated(unit: bytes, count: int) -> Iterator[bytes]:
    """`unit` so many times, in pieces."""
    each = max(1, _BLOCK_BYTES // len(unit))
    piece = unit * each
    for _ in range(count // each):
        yield piece
    yield unit * (count % each)


def _in_blocks(records: Iterable[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for record in records:
        block += record
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def record(
    offset_delta: int,
    value: bytes | None = b"",
    *,
    key: bytes | None = None,
    timestamp_delta: int = 0,
    headers: bytes = b"\x00",
) -> bytes:
    """One record as it is encoded; `headers` with their count."""
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += b"\x01" if key is None else encode_varint(len(key)) + key
    body += b"\x01" if value is None else encode_varint(len(value)) + value
    body += headers
    return encode_varint(len(body)) + body


# Much from little


def expansion(codec: Compression, size: int = 64 * MEBIBYTE - 64) -> bytes:
    """One sound record with a value of so many zeros."""
    start = b"\x00\x00\x00\x01" + encode_varint(size)

    def pieces() -> Iterator[bytes]:
        yield encode_varint(len(start) + size + 1) + start
        yield from _repeated(b"\x00", size + 1)

    return batch_around(codec, compressed(codec, pieces()), 1)


def bomb_of_small_values(codec: Compression, count: int = 640, size_each: int = 100_000) -> bytes:
    """`count` sound records of `size_each` zeros each, with one key: a state machine may keep the newest alone."""
    records = (record(index, bytes(size_each), key=b"k") for index in range(count))
    return batch_around(codec, compressed(codec, _in_blocks(records)), count)


def tiny_records(codec: Compression, count: int = 1_260_000, key: bytes | None = None) -> bytes:
    """`count` sound records with this key and an empty value, each of 7 bytes or a few more."""
    records = (record(index, key=key) for index in range(count))
    return batch_around(codec, compressed(codec, _in_blocks(records)), count)


def slow_records(codec: Compression, count: int = 400_000) -> bytes:
    """So many sound records whose timestamps are far apart: none has the short fields of an ordinary record."""
    records = (record(index, timestamp_delta=2**40 + index) for index in range(count))
    return batch_around(codec, compressed(codec, _in_blocks(records)), count)


def many_headers(codec: Compression, count: int = 33_000_000) -> bytes:
    """One sound record with so many headers of two bytes."""
    start = b"\x00\x00\x00\x01\x00" + encode_varint(count)

    def pieces() -> Iterator[bytes]:
        yield encode_varint(len(start) + count * len(_EMPTY_HEADER)) + start
        yield from _repeated(_EMPTY_HEADER, count)

    return batch_around(codec, compressed(codec, pieces()), 1)


def headers_everywhere(codec: Compression, count: int = 100_000, headers_each: int = 300) -> bytes:
    """So many sound records with so many headers each."""
    headers = encode_varint(headers_each) + _EMPTY_HEADER * headers_each
    records = (record(index, headers=headers) for index in range(count))
    return batch_around(codec, compressed(codec, _in_blocks(records)), count)


def repeated_record(codec: Compression, count: int = 9_000_000) -> bytes:
    """The same 7-byte record so often, its offset delta always 0: not sound, and as small as a bomb can be."""
    return batch_around(codec, compressed(codec, _repeated(record(0), count)), count)


# What frames can hold


def nested(codec: Compression, size: int = 64 * MEBIBYTE) -> bytes:
    """Zeros compressed twice: what is decompressed is compressed again, and no record."""
    return batch_around(codec, compressed(codec, [compressed(codec, _repeated(b"\x00", size))]), 1)


def nested_batch(codec: Compression, size: int = 64 * MEBIBYTE - 64) -> bytes:
    """A sound record whose value is a batch that is a bomb: nobody may look into it."""
    return batch_around(codec, compressed(codec, [record(0, expansion(codec, size))]), 1)


def empty_frames(codec: Compression, size: int = MEBIBYTE - 1024) -> bytes:
    """As many members, frames or blocks without content as fit into that size, and one record after them."""
    frame = compressed(codec, [])
    start = b""
    if codec is Compression.SNAPPY:
        start, frame = _XERIAL_HEADER, struct.pack(">i", 1) + b"\x00"
    content = start + frame * (size // len(frame)) + compressed(codec, [record(0)])[len(start) :]
    return batch_around(codec, content, 1)


def bomb_frames(codec: Compression, count: int = 64, size_each: int = MEBIBYTE) -> bytes:
    """So many members or frames of zeros in a row."""
    return batch_around(codec, compressed(codec, _repeated(b"\x00", size_each)) * count, 1)


def skippable_frames(codec: Compression = Compression.ZSTD, size: int = MEBIBYTE - 1024) -> bytes:
    """Skippable frames without content, zstd's or lz4's (they are the same), and one record after them."""
    frame = struct.pack("<II", 0x184D2A50, 0)
    return batch_around(codec, frame * (size // len(frame)) + compressed(codec, [record(0)]), 1)


def zstd_window(window_log: int = 31) -> bytes:
    """A frame that demands a window of 2**window_log bytes; it holds one record."""
    content = record(0)
    block_header = (len(content) << 3 | 1).to_bytes(3, "little")
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([(window_log - 10) << 3]) + block_header + content
    return batch_around(Compression.ZSTD, frame, 1)


def linked_blocks() -> bytes:
    """One record in an lz4 frame that Kafka's Java clients cannot read: its blocks may refer to earlier ones."""
    codec = lz4.frame.LZ4FrameCompressor(block_linked=True)
    return batch_around(Compression.LZ4, codec.begin() + codec.compress(record(0)) + codec.flush(), 1)


def later_than_its_records(by_ms: int = 2**62, codec: Compression = Compression.NONE) -> bytes:
    """A record of 1970 in a batch whose header claims that it has a later one."""
    batch = bytearray(batch_around(codec, compressed(codec, [record(0)]), 1))
    batch[35:43] = by_ms.to_bytes(8, "big")
    patch_crc(batch)
    return bytes(batch)


def zstd_content_size(size: int = 2**40) -> bytes:
    """A frame that claims so many bytes of content and has one record."""
    content = record(0)
    block_header = (len(content) << 3 | 1).to_bytes(3, "little")
    frame = b"\x28\xb5\x2f\xfd" + b"\xc0" + b"\x58" + struct.pack("<Q", size) + block_header + content
    return batch_around(Compression.ZSTD, frame, 1)


def snappy_claim(size: int = 2**32 - 1, *, framed: bool = False) -> bytes:
    """A block that claims so many bytes and has a handful."""
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    block = bytes(length) + bytes([size]) + b"\x00\x00"
    content = _XERIAL_HEADER + struct.pack(">i", len(block)) + block if framed else block
    return batch_around(Compression.SNAPPY, content, 1)


def snappy_raw(size: int = 20 * MEBIBYTE) -> bytes:
    """One sound record of so many zeros in one block without framing: it cannot be read in pieces."""
    value = bytes(size)
    return batch_around(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(record(0, value))), 1)


# Counts that lie


def claimed_count(codec: Compression, count: int = 2**31 - 1) -> bytes:
    """A header of so many records around one."""
    return batch_around(codec, compressed(codec, [record(0)]), count)


def claimed_headers(codec: Compression, count: int = 2**31 - 1) -> bytes:
    """A record that claims so many headers and has none."""
    return batch_around(codec, compressed(codec, [record(0, headers=encode_varint(count))]), 1)


BOMBS: Final[dict[str, Callable[[], bytes]]] = {
    **{
        f"{codec.name.lower()} {kind.__name__}": partial(kind, codec)
        for codec in CODECS
        for kind in (
            expansion,
            bomb_of_small_values,
            tiny_records,
            slow_records,
            many_headers,
            headers_everywhere,
            repeated_record,
            nested,
            nested_batch,
            empty_frames,
            claimed_count,
            claimed_headers,
        )
    },
    **{f"{codec.name.lower()} bomb_frames": partial(bomb_frames, codec) for codec in FRAMED_CODECS},
    "zstd skippable_frames": partial(skippable_frames, Compression.ZSTD),
    "lz4 skippable_frames": partial(skippable_frames, Compression.LZ4),
    "zstd window of 2 GiB": zstd_window,
    "zstd content size of 1 TiB": zstd_content_size,
    "snappy claim of 4 GiB": snappy_claim,
    "snappy framed claim of 4 GiB": partial(snappy_claim, framed=True),
    "snappy_raw": snappy_raw,
    "none claimed_count": partial(claimed_count, Compression.NONE),
    "none claimed_headers": partial(claimed_headers, Compression.NONE),
    "none tiny_records": partial(tiny_records, Compression.NONE, 110_000),
    "none many_headers": partial(many_headers, Compression.NONE, 520_000),
}
"""By name: the codec and the kind.  Not all of them fit into a Produce of message.max.bytes; those that do not are
refused by their size."""
