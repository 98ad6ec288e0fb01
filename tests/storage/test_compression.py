"""The codecs: round trips, what other writers write, bombs, garbage."""

from __future__ import annotations

import random

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import NewRecord, decode_records, encode_batch, peek_header
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.batches.compression import compress, decompress
from kraft_trio.storage.batches.decompression import decompressed_chunks

CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@given(st.binary(max_size=100_000), st.sampled_from(CODECS))
def test_what_is_compressed_is_decompressed(data: bytes, codec: Compression) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_by_the_cap_it_breaks(codec: Compression) -> None:
    bomb = compress(codec, bytes(20_000_000))
    with pytest.raises(ProtocolError, match=f"{codec.name.lower()} records: more than 100000 bytes when decompressed"):
        decompress(codec, bomb, 100_000)
    assert len(decompress(codec, bomb, 20_000_000)) == 20_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_above_the_cap_is_too_much(codec: Compression) -> None:
    data = compress(codec, b"x" * 1001)
    assert decompress(codec, data, 1001) == b"x" * 1001
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        decompress(codec, data, 1000)


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(min_size=1, max_size=200))
def test_garbage_never_gives_more_than_the_cap_nor_another_error(codec: Compression, garbage: bytes) -> None:
    try:
        decompressed = decompress(codec, garbage, 1000)
    except ProtocolError:
        return
    assert len(decompressed) <= 1000


@pytest.mark.parametrize("codec", CODECS)
def test_cut_records_are_refused(codec: Compression) -> None:
    values = [bytes([index % 251]) * index for index in range(200)]
    encoded = encode_batch([NewRecord(value) for value in values], timestamp_ms=0, compression=codec)
    cut = bytearray(encoded[:-40])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        decode_records(cut, 0, peek_header(cut))


def test_snappy_without_framing_is_read() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 100)), 1000) == b"abc" * 100


def test_framed_snappy_has_blocks_and_the_cap_counts_all_of_them() -> None:
    data = bytes(range(256)) * 1000
    framed = compress(Compression.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Compression.SNAPPY, framed, len(data)) == data
    with pytest.raises(ProtocolError, match=f"more than {len(data) - 1} bytes"):
        decompress(Compression.SNAPPY, framed, len(data) - 1)


@pytest.mark.parametrize(
    "tail", [b"\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x09ab"], ids=["cut", "0", "-1", "9 of 2"]
)
def test_framed_snappy_with_a_wrong_block_length_is_refused(tail: bytes) -> None:
    framed = compress(Compression.SNAPPY, b"abc")
    with pytest.raises(ProtocolError, match="snappy records"):
        decompress(Compression.SNAPPY, framed + tail, 1000)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_two_frames_in_a_row_are_one_content(codec: Compression) -> None:
    assert decompress(codec, compress(codec, b"one") + compress(codec, b"two"), 100) == b"onetwo"


RECORDS = random.Random(1).randbytes(200_000)
"""Several blocks of every codec."""


def kafka_reads(codec: Compression, data: bytes) -> bool:
    try:
        content = b"".join(decompressed_chunks(codec, data, len(RECORDS), as_kafka_reads=True))
    except ProtocolError:
        return False
    assert content == RECORDS
    return True


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_reads_what_is_compressed_here(codec: Compression) -> None:
    assert kafka_reads(codec, compress(codec, RECORDS))


def test_kafka_reads_no_linked_lz4_blocks() -> None:
    linked = lz4.frame.compress(RECORDS, block_linked=True)
    assert decompress(Compression.LZ4, linked, len(RECORDS)) == RECORDS
    assert not kafka_reads(Compression.LZ4, linked)


@pytest.mark.parametrize("compressed", [b"\x04", b"\x04\x22\x4d\x18", b"\x50\x2a\x4d\x18\x00\x00\x00\x00"])
def test_kafka_reads_no_lz4_that_starts_otherwise(compressed: bytes) -> None:
    frame = compress(Compression.LZ4, RECORDS)
    assert not kafka_reads(Compression.LZ4, compressed)
    assert not kafka_reads(Compression.LZ4, compressed + frame)


def test_kafka_reads_no_second_lz4_frame() -> None:
    assert not kafka_reads(Compression.LZ4, b"".join(compress(Compression.LZ4, half) for half in halves()))


def test_kafka_reads_several_zstd_frames_and_gzip_members() -> None:
    for codec in (Compression.ZSTD, Compression.GZIP):
        assert kafka_reads(codec, b"".join(compress(codec, half) for half in halves()))


def test_kafka_reads_no_zstd_without_its_whole_checksum() -> None:
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(RECORDS)
    assert kafka_reads(Compression.ZSTD, whole)
    for missing in range(1, 5):
        assert not kafka_reads(Compression.ZSTD, whole[:-missing])


def halves() -> tuple[bytes, bytes]:
    return RECORDS[: len(RECORDS) // 2], RECORDS[len(RECORDS) // 2 :]
