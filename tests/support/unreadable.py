"""Batches that a replica of Apache Kafka can and cannot read, as its own class confirms in tests/interop."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import attrs
import lz4.frame

from kraft_trio.storage.batches.batch import Compression, NewRecord, encode_batch
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, patch_crc
from kraft_trio.storage.batches.compression import compress

AT_MS: Final = 1_700_000_000_000
_RANDOM: Final = random.Random(1)
_RECORDS: Final = [NewRecord(_RANDOM.randbytes(1000)) for _ in range(150)]
"""More than one lz4 block."""


@attrs.frozen
class Case:
    """`reason` has words of our refusal, `kafka` words of Kafka's error; None where the batch is readable."""

    batch: bytes
    reason: str | None = None
    kafka: str | None = None


def of(*records: NewRecord, compression: Compression = Compression.NONE, producer_id: int = -1) -> bytes:
    return encode_batch(records, timestamp_ms=AT_MS, compression=compression, producer_id=producer_id)


def with_content(batch: bytes, content: bytes) -> bytes:
    """The batch with other compressed bytes behind its header."""
    made = bytearray(batch[:HEADER_BYTES] + content)
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    patch_crc(made)
    return bytes(made)


def with_log_append_time(batch: bytes) -> bytes:
    made = bytearray(batch)
    made[22] |= 0x08
    patch_crc(made)
    return bytes(made)


def in_two(compression: Compression) -> bytes:
    """Records whose compressed form is two members or frames, one after the other."""
    content = of(*_RECORDS)[HEADER_BYTES:]
    half = len(content) // 2
    parts = compress(compression, content[:half]) + compress(compression, content[half:])
    return with_content(of(*_RECORDS, compression=compression), parts)


def in_small_blocks() -> bytes:
    content = of(*_RECORDS)[HEADER_BYTES:]
    frame = lz4.frame.compress(
        content, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, block_checksum=True, store_size=True
    )
    return with_content(of(*_RECORDS, compression=Compression.LZ4), frame)


def in_one_block() -> bytes:
    content = of(*_RECORDS)[HEADER_BYTES:]
    frame = lz4.frame.compress(content, block_size=lz4.frame.BLOCKSIZE_MAX256KB, block_linked=False)
    return with_content(of(*_RECORDS, compression=Compression.LZ4), frame)


VALUE: Final = NewRecord(b"value")
LONG: Final = NewRecord(b"v" * 1000)
LARGER_THAN_BATCH: Final = "is larger than the entire size of the batch"
CUT: Final = "Unable to read"

CASES: Final[Mapping[str, Case]] = {
    "values": Case(of(VALUE, NewRecord(b"x"))),
    "of a producer": Case(of(VALUE, producer_id=5)),
    "all at another time": Case(of(NewRecord(b"a", timestamp_ms=7), NewRecord(b"b", timestamp_ms=7))),
    "two times": Case(of(VALUE, NewRecord(b"x", timestamp_ms=AT_MS + 20)), "20 ms after", "timestamp delta of 20"),
    "an earlier time": Case(of(VALUE, NewRecord(b"x", timestamp_ms=AT_MS - 1)), "-1 ms after", "timestamp delta of -1"),
    "two times, which its append time hides": Case(
        with_log_append_time(of(VALUE, NewRecord(b"x", timestamp_ms=AT_MS + 20))),
        "20 ms after",
        "timestamp delta of 20",
    ),
    "a key": Case(of(NewRecord(b"x", b"key")), "it has a key", "Got key in the record"),
    "an empty key": Case(of(NewRecord(b"x", b"")), "it has a key", "Got key in the record"),
    "a null value": Case(of(VALUE, NewRecord(None)), "record 1: its value is null", "Missing value in the record"),
    "an empty value": Case(of(NewRecord(b"")), "its value is empty", "unexpected empty value"),
    "a header": Case(of(NewRecord(b"x", headers=(("h", b"1"),))), "it has 1 headers", "Got numHeaders"),
    **{
        f"{codec.name}, small": Case(of(VALUE, VALUE, NewRecord(b"x"), compression=codec))
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
    },
    **{
        f"{codec.name}, larger than its batch": Case(
            of(LONG, compression=codec), "more than its compressed batch", LARGER_THAN_BATCH
        )
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
    },
    **{
        f"{codec.name}, long": Case(of(*_RECORDS, compression=codec))
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.ZSTD)
    },
    "gzip of two members": Case(in_two(Compression.GZIP), "several gzip members", CUT),
    "zstd of two frames": Case(in_two(Compression.ZSTD)),
    "lz4 of several blocks": Case(of(*_RECORDS, compression=Compression.LZ4), "several lz4 blocks", CUT),
    "lz4 of several checked blocks": Case(in_small_blocks(), "several lz4 blocks", CUT),
    "lz4 of one large block": Case(in_one_block()),
}
