"""Bombs of every codec, checked as a leader does and read as a replay does: the work and the memory they cost."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches import batch as batch_module
from kraft_trio.storage.batches import record_check, record_chunks, record_window
from kraft_trio.storage.batches.batch import decode_control_batch, decode_record, peek_header
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE, Compression, patch_crc
from kraft_trio.storage.batches.control_records import (
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    decode_control_record,
)
from kraft_trio.storage.batches.decompression import CHUNK_BYTES, decompressed_chunks
from kraft_trio.storage.batches.record_check import check_records, check_steps
from kraft_trio.storage.batches.record_limits import (
    MAX_BATCH_HEADERS,
    MAX_CONTROL_BYTES,
    MAX_CONTROL_ITEMS,
    MAX_HEADERS,
    MAX_READ_HEADERS,
    MAX_RECORDS,
    SMALL_CONTENT_BYTES,
    produce_limits,
)
from kraft_trio.storage.snapshots.snapshot_reader import read_batches
from tests.support import bombs, sizes

MEBIBYTE = 1024 * 1024
CAP = 64 * MEBIBYTE
CODECS = bombs.CODECS
ATTRIBUTES_LOW_BYTE = 22

REFUSED = {
    "expansion": (partial(bombs.expansion, size=8 * MEBIBYTE), "a record of [0-9]+ bytes, at most [0-9]+ allowed"),
    "zeros": (
        partial(bombs.bomb_of_small_values, count=100, size_each=100_000),
        "more than [0-9]+ bytes when decompressed",
    ),
    "records": (partial(bombs.repeated_record, count=MAX_RECORDS + 1), f"at most {MAX_RECORDS} allowed"),
    "headers": (partial(bombs.many_headers, count=MAX_HEADERS + 1), f"at most {MAX_HEADERS} allowed"),
    "headers in all": (
        partial(bombs.headers_everywhere, count=1000, headers_each=MAX_BATCH_HEADERS // 1000 + 1),
        f"more than {MAX_BATCH_HEADERS} record headers",
    ),
    "nested": (partial(bombs.nested, size=MEBIBYTE), "batch at offset 0|record|variable-length"),
    "claimed count": (bombs.claimed_count, f"at most {MAX_RECORDS} allowed"),
    "claimed headers": (bombs.claimed_headers, "cannot be in 0 bytes"),
}
ACCEPTED = {
    "records": partial(bombs.tiny_records, count=20_000),
    "slow records": partial(bombs.slow_records, count=5_000),
    "zeros": partial(bombs.expansion, size=SMALL_CONTENT_BYTES - 100),
    "headers": partial(bombs.many_headers, count=MAX_HEADERS),
    "nested batch": partial(bombs.nested_batch, size=MEBIBYTE),
    "empty frames": partial(bombs.empty_frames, size=100_000),
}


def check_as_a_leader(batch: bytes, cap: int = CAP) -> int:
    """How many steps it took."""
    header = peek_header(batch)
    return sum(1 for _ in check_steps(batch, 0, header, produce_limits(len(batch), cap, cap)))


def peak_of(job: Callable[[], Any]) -> int:
    """Bytes that Python's allocator handed out at most while the job ran, above what it had before."""
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.rotating(3)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("kind", REFUSED)
def test_bomb_is_refused_by_name_within_its_memory(kind: str, codec: Compression) -> None:
    if kind == "headers in all" and codec is not Compression.ZSTD and not sizes.IS_ALL:
        pytest.skip("a million headers, whatever the codec: in the nightly run")
    build, reason = REFUSED[kind]
    batch = build(codec)

    def check() -> None:
        with pytest.raises(ProtocolError, match=reason):
            check_as_a_leader(batch, SMALL_CONTENT_BYTES)

    # The buffer grows by an eighth at a time.
    assert peak_of(check) < 1.2 * SMALL_CONTENT_BYTES + 2 * len(batch) + MEBIBYTE


@pytest.mark.rotating(3)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("kind", ACCEPTED)
def test_large_but_honest_batch_is_not_refused(kind: str, codec: Compression) -> None:
    if (kind, codec) == ("empty frames", Compression.LZ4):
        pytest.skip("Kafka reads one lz4 frame")
    check_as_a_leader(ACCEPTED[kind](codec))


@pytest.mark.rotating(3)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_walked_records_are_given_up(codec: Compression) -> None:
    batch = bombs.headers_everywhere(codec, count=4000, headers_each=20)
    assert peak_of(lambda: check_as_a_leader(batch)) < 2 * len(batch) + 16 * CHUNK_BYTES


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the decoder had to do since the list was cleared: records and headers."""
    done: list[int] = []

    def counting(data: bytes, position: int, *arguments: Any) -> Any:
        record, end = decode_record(data, position, *arguments)
        done.append(1 + len(record.headers))
        return record, end

    for module in (record_check, record_chunks):
        monkeypatch.setattr(module, "decode_record", counting)
    return done


def most_between_steps(steps: Iterator[Any], work: list[int]) -> int:
    most = 0
    for _ in steps:
        most = max(most, sum(work))
        work.clear()
    return max(most, sum(work))


def test_step_of_a_check_is_bounded_work(work: list[int]) -> None:
    for batch in (
        bombs.slow_records(Compression.ZSTD, 5000),
        bombs.headers_everywhere(Compression.ZSTD, count=200, headers_each=900),
    ):
        steps = check_steps(batch, 0, peek_header(batch), produce_limits(len(batch), CAP, CAP))
        assert 0 < most_between_steps(steps, work) <= 2 * MAX_HEADERS


def test_list_of_a_replay_is_bounded_work(work: list[int]) -> None:
    batch = bombs.headers_everywhere(Compression.ZSTD, count=1000, headers_each=900)
    lists = record_chunks.record_chunks(batch, 0, peek_header(batch), CAP)
    assert 0 < most_between_steps(lists, work) <= 4096


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_no_chunk_is_larger_than_it_may_be(codec: Compression) -> None:
    content = bombs.expansion(codec, 4 * MEBIBYTE)[61:]
    sizes = [len(chunk) for chunk in decompressed_chunks(codec, content, CAP)]
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) > 4 * MEBIBYTE


@pytest.mark.parametrize("codec", bombs.FRAMED_CODECS, ids=lambda codec: codec.name)
def test_frames_in_a_row_are_fed_in_small_pieces(codec: Compression) -> None:
    """Content that a codec has not consumed is not copied again for each frame of it."""
    batch = bombs.empty_frames(codec, 500_000)
    check = partial(check_records, batch, 0, peek_header(batch), CAP)
    assert peak_of(check) < len(batch) + 16 * CHUNK_BYTES


@pytest.mark.rotating(3)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_replay_of_many_records_needs_little_memory(codec: Compression) -> None:
    batch = bombs.repeated_record(codec, 16_000)
    header = peek_header(batch)

    def read() -> None:
        lists = record_chunks.record_chunks(batch, 0, header, CAP)
        assert sum(map(len, lists)) == header.record_count

    assert peak_of(read) < 2 * len(batch) + 8 * CHUNK_BYTES


def test_replay_has_no_limit_but_that_of_a_record() -> None:
    batch = bombs.expansion(Compression.ZSTD, MEBIBYTE)
    header = peek_header(batch)
    assert sum(map(len, record_chunks.record_chunks(batch, 0, header, 2 * MEBIBYTE))) == 1
    with pytest.raises(ProtocolError, match=r"a record of \d+ bytes, at most 1000 allowed"):
        list(record_chunks.record_chunks(batch, 0, header, 1000))
    headers = bombs.many_headers(Compression.ZSTD, MAX_READ_HEADERS + 1)
    with pytest.raises(ProtocolError, match=f"at most {MAX_READ_HEADERS} allowed"):
        list(record_chunks.record_chunks(headers, 0, peek_header(headers), CAP))


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (bombs.zstd_window(), "zstd records: .*memory"),
        (bombs.zstd_content_size(), "zstd records: "),
        (bombs.snappy_claim(), "more than 4194304 bytes when decompressed"),
        (bombs.snappy_claim(framed=True), "more than 4194304 bytes when decompressed"),
        (bombs.snappy_claim(10_000), "that claims 10000"),
        (bombs.claimed_count(Compression.NONE), f"at most {MAX_RECORDS} allowed"),
        (bombs.claimed_headers(Compression.NONE), "cannot be in 0 bytes"),
        (bombs.many_headers(Compression.NONE, MAX_HEADERS + 1), f"at most {MAX_HEADERS} allowed"),
    ],
)
def test_claim_is_refused_without_allocating_by_it(batch: bytes, reason: str) -> None:
    def check() -> None:
        with pytest.raises(ProtocolError, match=reason):
            check_as_a_leader(batch)

    assert peak_of(check) < MEBIBYTE


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_bytes_that_follow_the_last_record_are_not_all_read(codec: Compression) -> None:
    content = bombs.compressed(codec, [bombs.record(0), *[bytes(CHUNK_BYTES)] * 64])
    batch = bombs.batch_around(codec, content, 1)
    pulled = 0

    def counting(*arguments: Any, **options: Any) -> Iterator[bytes]:
        nonlocal pulled
        for chunk in decompressed_chunks(*arguments, **options):
            pulled += len(chunk)
            yield chunk

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_window, "decompressed_chunks", counting)
        with pytest.raises(ProtocolError, match="bytes follow its last record"):
            check_as_a_leader(batch)
    assert pulled <= 3 * CHUNK_BYTES


def test_highly_compressible_log_lines_are_not_refused() -> None:
    """A megabyte of one line repeated, as a stuck service writes it: at the codecs' best ratio."""
    values = [b'{"level": "ERROR", "message": "connection refused", "host": "db-1"}'] * 15_000
    records = b"".join(bombs.record(index, value) for index, value in enumerate(values))
    for codec in CODECS:
        check_as_a_leader(bombs.batch_around(codec, bombs.compressed(codec, [records]), len(values)))


def test_expansion_is_bounded_by_size_above_what_is_small() -> None:
    assert produce_limits(100, 1000, CAP).max_bytes == SMALL_CONTENT_BYTES
    assert produce_limits(16 * 1024, 1000, CAP).max_bytes == 16 * MEBIBYTE
    assert produce_limits(MEBIBYTE, 1000, CAP).max_bytes == CAP
    assert produce_limits(100, 1000, 1000).max_bytes == 1000


def control_batch(*values: tuple[int, bytes], codec: Compression = Compression.ZSTD) -> bytes:
    """A compressed control batch: of each record its type, and its value."""
    records = (bombs.record(at, value, key=struct.pack(">hh", 0, kind)) for at, (kind, value) in enumerate(values))
    batch = bytearray(bombs.batch_around(codec, bombs.compressed(codec, records), len(values)))
    batch[ATTRIBUTES_LOW_BYTE] |= CONTROL_ATTRIBUTE
    patch_crc(batch)
    return bytes(batch)


NO_FIELDS = b"\x00"
MANY = 40_000
MANY_VARINT = b"\xc1\xb8\x02"
"""MANY + 1, by which an array says its length."""
CONTROL_BOMBS = {
    "voters of a leader change": (LEADER_CHANGE, b"\0\0\0\0\0\1" + MANY_VARINT + b"\0\0\0\1\0" * MANY + b"\1\0"),
    "voters": (KRAFT_VOTERS, b"\0\0" + MANY_VARINT + (bytes(20) + b"\1\0\0\0\1\0\0") * MANY + NO_FIELDS),
    "tagged fields": (SNAPSHOT_FOOTER, b"\0\0" + b"\xc0\xb8\x02" + b"\1\0" * MANY),
}


@pytest.mark.parametrize("name", CONTROL_BOMBS)
def test_control_record_of_many_items_is_refused(name: str) -> None:
    kind, value = CONTROL_BOMBS[name]
    with pytest.raises(ProtocolError, match=f"control record: more than {MAX_CONTROL_ITEMS} items"):
        decode_control_record(struct.pack(">hh", 0, kind), value)


def test_compressed_control_batch_is_refused_above_its_bound() -> None:
    bomb = control_batch((99, bytes(8 * MEBIBYTE)))
    with pytest.raises(ProtocolError, match=f"more than {MAX_CONTROL_BYTES} bytes when decompressed"):
        list(decode_control_batch(bomb, 0, peek_header(bomb)))
    plain = control_batch((99, bytes(8 * MEBIBYTE)), codec=Compression.NONE)
    assert list(decode_control_batch(plain, 0, peek_header(plain))) == []


def test_snapshot_of_many_voter_sets_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `kraft snapshot save` meets it, and a follower that downloads it."""
    decoded = []
    decode = batch_module.decode_control_record
    monkeypatch.setattr(batch_module, "decode_control_record", lambda *of: decoded.append(of) or decode(*of))
    voters = (KRAFT_VOTERS, b"\0\0\2" + bytes(20) + b"\1\0\0\0\1\0\0" + NO_FIELDS)
    header = (SNAPSHOT_HEADER, b"\0\0" + bytes(8) + NO_FIELDS)
    bomb = control_batch(header, *[voters] * 1000)
    with pytest.raises(ProtocolError, match="expected each of"):
        list(read_batches(InMemory(bomb)))
    assert len(decoded) == 4


@attrs.frozen
class InMemory:
    """See `SnapshotSource`."""

    data: bytes

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]
