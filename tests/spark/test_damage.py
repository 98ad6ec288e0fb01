"""Damage anywhere is a row with `error`; every other row is as it was."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.scan import FIRST_CHUNK_BYTES
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, iter_headers, patch_base_offset_and_epoch
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, MAGIC_POSITION, Compression
from tests.spark.logs import as_truth, logs, read, truth
from tests.support import sizes

pytestmark = pytest.mark.rotating(2)

CHUNKS = st.sampled_from([1, 200, 1 << 20])
EPOCH_BYTES = range(12, 16)


def starts_of(log: list[bytes]) -> list[int]:
    positions = [0]
    for batch in log:
        positions.append(positions[-1] + len(batch))
    return positions


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def plain_log(sizes: list[int], epochs: list[int] | None = None) -> list[bytes]:
    """One record a batch, of those sizes."""
    made = []
    for offset, size in enumerate(sizes):
        batch = bytearray(encode_batch([NewRecord(b"v" * size)], timestamp_ms=5))
        patch_base_offset_and_epoch(batch, 0, offset, 1 if epochs is None else epochs[offset])
        made.append(bytes(batch))
    return made


@settings(max_examples=sizes.examples(150))
@given(logs(), st.data(), CHUNKS)
def test_a_bit_that_flips_costs_one_batch_at_most(log: list[bytes], draw: st.DataObject, chunk_bytes: int) -> None:
    data = b"".join(log)
    bit = draw.draw(st.integers(0, len(data) * 8 - 1))
    changed = flipped(data, bit)
    starts = starts_of(log)
    hit = next(at for at in range(len(log)) if starts[at + 1] > bit // 8)
    epochs = [header.leader_epoch for _, header in iter_headers(data)]
    in_batch = bit // 8 - starts[hit]
    zeros = draw.draw(st.just(0) | st.integers(1, 3000))
    table = read(changed + bytes(zeros), chunk_bytes=chunk_bytes, may_be_preallocated=zeros > 0)
    others = [row for row in truth(log) if row["position"] != starts[hit]]
    if in_batch in EPOCH_BYTES:
        epochs[hit] ^= 1 << (8 * (EPOCH_BYTES.stop - 1 - in_batch) + bit % 8)
        epochs[hit] = epochs[hit] if epochs[hit] < 2**31 else epochs[hit] - 2**32
        if epochs == sorted(epochs) and epochs[0] >= 0:
            # Nothing in the log contradicts it.
            assert table.errors == []
            return
        # One of two batches is wrong, and both say so; what they hold is there.
        assert {row["position"] for row in table.errors} >= {starts[hit]}
        assert {row["position"] for row in table.errors} <= {starts[at] for at in range(hit - 1, hit + 2) if at >= 0}
        assert [as_truth(row) for row in table.rows if row["position"] != starts[hit]] == others
        return
    assert {row["position"] for row in table.errors} == {starts[hit]}
    assert [as_truth(row) for row in table.sound] == others


@given(logs(), st.data(), CHUNKS)
def test_a_log_that_is_cut_ends_with_an_error(log: list[bytes], draw: st.DataObject, chunk_bytes: int) -> None:
    data = b"".join(log)
    cut = draw.draw(st.integers(0, len(data) - 1))
    table = read(data[:cut], chunk_bytes=chunk_bytes)
    starts = starts_of(log)
    whole = [start for start, end in itertools.pairwise(starts) if end <= cut]
    assert [as_truth(row) for row in table.sound] == [row for row in truth(log) if row["position"] in whole]
    if cut in starts:
        assert table.errors == []
    else:
        [error] = table.errors
        assert error["position"] == max(start for start in starts if start < cut)
        assert error["position"] + error["size"] == cut
        assert f"{cut - error['position']} " in error["error"]


@settings(max_examples=sizes.examples(100))
@given(logs(), st.data(), CHUNKS, st.sampled_from(["records", "batches", "control"]))
def test_any_damage_is_an_error_and_no_wrong_row(
    log: list[bytes], draw: st.DataObject, chunk_bytes: int, content: str
) -> None:
    """Several places at once, of any length: zeros, other bytes, bytes put in, bytes left out."""
    data = bytearray(b"".join(log))
    for _ in range(draw.draw(st.integers(1, 3))):
        start = draw.draw(st.integers(0, len(data)))
        end = min(len(data), start + draw.draw(st.sampled_from([0, 1, 8, 61, 512])))
        data[start:end] = draw.draw(st.binary(max_size=70) | st.just(bytes(end - start)))
    table = read(bytes(data), content, chunk_bytes=chunk_bytes)
    assert table.rows == read(bytes(data), content).rows
    covered = 0
    for row in read(bytes(data), "batches", chunk_bytes=chunk_bytes).rows:
        assert row["position"] == covered
        covered += row["size"]
    assert covered == len(data)
    if content == "records":
        unconfirmed = batches_at_unconfirmed_offsets(table.rows)
        for row in table.sound:
            ignored = OFFSETS if row["position"] in unconfirmed else frozenset()
            contents = [without_place(sound, ignored) for sound in truth(log)]
            assert without_place(as_truth(row), ignored) in contents


OFFSETS = frozenset({"batch_offset", "offset"})


def without_place(row: dict[str, Any], ignored: frozenset[str] = frozenset()) -> dict[str, Any]:
    """An epoch may be wrong and contradict nothing."""
    return {name: value for name, value in row.items() if name not in {"position", "epoch"} | ignored}


def batches_at_unconfirmed_offsets(rows: list[dict[str, Any]]) -> set[int]:
    """The positions of batches between damage, or between damage and the end.

    The checksum does not cover a base offset.  Only a neighbour can contradict it.
    """
    errors = {row["position"]: row["error"] for row in rows}
    positions = sorted(errors)
    return {
        position
        for before, position, after in zip(positions, positions[1:], [*positions[2:], None], strict=False)
        if errors[before] is not None and (after is None or errors[after] is not None)
    }


def test_only_a_neighbour_contradicts_a_base_offset() -> None:
    log = plain_log([5] * 4)
    damaged = bytearray(b"".join(log))
    second, third = len(log[0]), len(log[0] + log[1])
    damaged[second + MAGIC_POSITION] = 0
    damaged[third + 6] = 1
    assert [row["offset"] for row in read(bytes(damaged)).sound] == [0, 3]
    not_followed = read(bytes(damaged[: third + len(log[2])]))
    assert [row["offset"] for row in not_followed.sound] == [0, 2 + 256]
    assert batches_at_unconfirmed_offsets(not_followed.rows) == {third}


def test_a_batch_that_is_missing_is_told_at_the_next_one() -> None:
    log = plain_log([5, 5, 5])
    first, second = read(log[0] + log[2]).rows
    assert first["error"] is None
    assert (second["offset"], second["value"]) == (2, b"v" * 5)
    assert second["error"] == "base offset 2, expected 1"


def test_a_segment_that_does_not_begin_where_its_name_says() -> None:
    [row] = read(plain_log([5, 5])[1]).rows
    assert row["error"] == "base offset 1, expected 0"


@pytest.mark.parametrize("epochs", [[3, 1, 3], [1, 7, 3], [3, 1]])
def test_an_epoch_that_falls(epochs: list[int]) -> None:
    table = read(b"".join(plain_log([5] * len(epochs), epochs)), "batches")
    assert [row["epoch"] for row in table.rows] == epochs
    texts = {row["base_offset"]: row["error"] for row in table.errors}
    falling = next(at for at in range(1, len(epochs)) if epochs[at] < epochs[at - 1])
    assert texts[falling] == f"leader epoch {epochs[falling]} after epoch {epochs[falling - 1]}"
    assert set(texts) <= {falling - 1, falling}


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_a_batch_with_a_damaged_format_and_epoch_blames_no_other(chunk_bytes: int) -> None:
    log = plain_log([5] * 3, [1] * 3)
    data = bytearray(b"".join(log))
    start = len(log[0])
    data[start + EPOCH_BYTES.start : start + EPOCH_BYTES.start + 8] = bytes(8)
    table = read(bytes(data), chunk_bytes=chunk_bytes)
    assert [row["offset"] for row in table.sound] == [0, 2]
    [error] = table.errors
    assert (error["position"], error["error"]) == (start, "magic 0, expected 2")


def test_a_batch_within_a_value_is_none_of_the_log() -> None:
    inner = bytearray(encode_batch([NewRecord(b"inner")], timestamp_ms=5))
    patch_base_offset_and_epoch(inner, 0, 1, 1)
    outer = bytearray(encode_batch([NewRecord(b"x" + bytes(inner) + b"y")], timestamp_ms=5))
    patch_base_offset_and_epoch(outer, 0, 0, 1)
    log = [bytes(outer), *plain_log([5, 5])[1:]]
    data = bytearray(b"".join(log))
    data[10] ^= 1  # its length
    table = read(bytes(data))
    assert [row["value"] for row in table.sound] == [b"v" * 5]
    [error] = table.errors
    assert (error["position"], error["size"]) == (0, len(outer))


@pytest.mark.parametrize("content", [b"this is a text and no log\n" * 50, bytes(100_000), b"\xff" * 1000, b"\0"])
def test_a_file_that_is_no_log_is_one_error(content: bytes) -> None:
    [row] = read(content).rows
    assert (row["position"], row["size"]) == (0, len(content))
    assert row["error"]


def test_a_damaged_batch_shows_what_its_header_says() -> None:
    log = plain_log([5, 5, 5])
    data = bytearray(b"".join(log))
    data[len(log[0]) + HEADER_BYTES + 7] ^= 1
    rows = read(bytes(data), "batches").rows
    assert [row["error"] is None for row in rows] == [True, False, True]
    assert (rows[1]["base_offset"], rows[1]["record_count"], rows[1]["crc_ok"]) == (1, 1, False)
    assert rows[1]["crc"] != rows[1]["content_crc"]
    assert rows[1]["error"].startswith("CRC is 0x")


@pytest.mark.parametrize("zeros", [1, 8, 60, 61, 5000, 300_000])
@pytest.mark.parametrize("hit", [1, 3, 4])
@pytest.mark.parametrize("place", [0, 11, MAGIC_POSITION, 18, 23, 57, HEADER_BYTES + 7, -1])
@pytest.mark.parametrize("mask", [1, 0x80])
def test_preallocated_zeros_change_nothing(zeros: int, hit: int, place: int, mask: int) -> None:
    """Only where the header of the last batch is damaged does nobody know how many of the zeros are its own."""
    log = plain_log([50] * 5)
    damaged = bytearray(log[hit])
    damaged[place] ^= mask
    data = b"".join([*log[:hit], damaged, *log[hit + 1 :]])
    rows, with_zeros = read(data, "batches").rows, read(data + bytes(zeros), "batches", may_be_preallocated=True).rows
    told = {"position"} if hit == 4 and place in {0, 11, MAGIC_POSITION, 23, 57} else {*rows[0]} - {"error"}
    assert [row["error"] is None for row in with_zeros] == [row["error"] is None for row in rows]
    assert [{name: row[name] for name in told} for row in with_zeros] == [
        {name: row[name] for name in told} for row in rows
    ]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_batch_at_the_end_of_the_last_value_is_none_of_the_log(compression: Compression) -> None:
    """Whichever bit of the one around it flips, and although only zeros follow it, too."""
    inner = bytearray(encode_batch([NewRecord(bytes(range(200)))], timestamp_ms=5))
    patch_base_offset_and_epoch(inner, 0, 1, 1)
    outer = bytearray(encode_batch([NewRecord(bytes(inner))], timestamp_ms=5, compression=compression))
    patch_base_offset_and_epoch(outer, 0, 1, 1)
    first = plain_log([5])[0]
    start = len(first)
    for bit in range(start * 8, (start + len(outer)) * 8):
        table = read(flipped(first + bytes(outer), bit) + bytes(3000), "batches", may_be_preallocated=True)
        assert [row["position"] for row in table.rows] == [0, start], bit


def test_damage_is_shown_whatever_offsets_are_asked_for() -> None:
    log = plain_log([5, 5, 5])
    data = bytearray(b"".join(log))
    data[len(log[0]) + HEADER_BYTES + 7] ^= 1
    table = read(bytes(data), wanted=BatchFilter(start_offset=2))
    assert [row["offset"] for row in table.sound] == [2]
    assert len(table.errors) == 1


@pytest.mark.parametrize("zeros", [0, 1 << 20])
def test_every_second_batch_damaged(zeros: int) -> None:
    """What lies between is read; and what is read again because of each of them is no more than some small chunks."""
    log = plain_log([20] * 2000)
    data = bytearray(b"".join(log))
    for start in starts_of(log)[:-1:2]:
        data[start + MAGIC_POSITION] = 9
    reads: list[int] = []
    table = read(bytes(data) + bytes(zeros), "batches", reads=reads, may_be_preallocated=True)
    assert [row["base_offset"] for row in table.sound] == list(range(1, 2000, 2))
    assert [row["position"] for row in table.errors] == starts_of(log)[:-1:2]
    assert sum(reads) <= 1000 * 5 * FIRST_CHUNK_BYTES + 8 * zeros
