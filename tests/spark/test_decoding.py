"""Every row is what storage.batches.batch says of the same bytes, or says that something is wrong there."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.header_fields import MOST_HEADERS
from kraft_trio.spark.decoding.headers import walk
from kraft_trio.spark.decoding.payloads import Spans
from kraft_trio.spark.decoding.record_fields import misnumbered, read_records
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.storage.batches.batch import (
    NewRecord,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_headers,
    patch_base_offset_and_epoch,
)
from kraft_trio.storage.batches.batch_header import (
    CRC_START,
    FRAME_BYTES,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    patch_crc,
)
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange, VotersRecord, encode_control_record
from kraft_trio.storage.batches.varint import encode_varint
from tests.spark.logs import COLUMNS, TIMES_MS, as_truth, logs, read, truth
from tests.storage.support import KAFKAS_VOTERS

CHUNKS = st.sampled_from([1, 100, 700, 1 << 20])


@given(logs(), CHUNKS, st.booleans())
def test_records_are_what_the_storage_decodes(log: list[bytes], chunk_bytes: int, side_by_side: bool) -> None:
    table = read(b"".join(log), chunk_bytes=chunk_bytes, side_by_side=side_by_side)
    assert table.errors == []
    assert [as_truth(row) for row in table.rows] == truth(log)
    assert all(row["crc_ok"] and row["directory"] == "d" for row in table.rows)


LENGTHS = st.sampled_from([HEADER_BYTES, HEADER_BYTES + 7, 100, 300])
BODIES = st.binary(min_size=1, max_size=4).map(lambda some: some * 100)
BATCHES_OF_A_KIND = st.tuples(
    LENGTHS, BODIES | st.just(bytes([MAGIC]) * 300), st.integers(1, 60), st.sampled_from([2, 0])
)


@given(st.lists(BATCHES_OF_A_KIND, max_size=6), st.integers(0, 400), st.binary(max_size=100))
def test_batches_are_found_by_their_lengths_alone(
    kinds: list[tuple[int, bytes, int, int]], cut: int, rest: bytes
) -> None:
    data = b""
    for length, body, count, magic in kinds:
        batch = bytearray((body * 3)[:length])
        batch[8:12] = (length - FRAME_BYTES).to_bytes(4, "big")
        batch[MAGIC_POSITION] = magic
        data += bytes(batch) * count
    data += rest
    end = max(len(data) - cut, 0)
    expected = []
    position = 0
    while position + HEADER_BYTES <= end:
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + FRAME_BYTES
        if size < HEADER_BYTES or position + size > end:
            break
        expected.append(position)
        position += size
    assert walk(data, 0, end).tolist() == expected


@given(logs())
def test_uncompressed_record_sizes_are_those_of_the_batch(log: list[bytes]) -> None:
    headers = [header for _, header in iter_headers(b"".join(log))]
    sizes: dict[int, int] = {}
    for row in read(b"".join(log)).rows:
        sizes[row["batch_offset"]] = sizes.get(row["batch_offset"], 0) + row["size"]
    for header in headers:
        if header.compression == 0:
            assert sizes[header.base_offset] == header.size_in_bytes - HEADER_BYTES


@given(logs(), CHUNKS)
def test_batches_are_what_their_headers_say(log: list[bytes], chunk_bytes: int) -> None:
    data = b"".join(log)
    rows = read(data, "batches", chunk_bytes=chunk_bytes).rows
    expected = list(iter_headers(data))
    assert len(rows) == len(expected)
    for row, (position, header) in zip(rows, expected, strict=True):
        assert row["error"] is None
        assert (row["position"], row["size"]) == (position, header.size_in_bytes)
        assert (row["base_offset"], row["last_offset"]) == (header.base_offset, header.last_offset)
        assert (row["epoch"], row["magic"], row["record_count"]) == (header.leader_epoch, MAGIC, header.record_count)
        assert row["compression"] == header.compression.name.lower()
        assert (row["control"], row["transactional"]) == (header.is_control, header.is_transactional)
        assert row["timestamp_type"] == ("LogAppendTime" if header.has_log_append_time else "CreateTime")
        assert round(row["base_timestamp"].timestamp() * 1000) == header.base_timestamp_ms
        assert round(row["max_timestamp"].timestamp() * 1000) == header.max_timestamp_ms
        assert row["producer_id"] == header.producer_id
        assert (row["producer_epoch"], row["base_sequence"]) == (header.producer_epoch, header.base_sequence)
        assert row["crc"] == row["content_crc"] == header.crc
        assert row["crc_ok"]


@given(logs(), st.integers(0, 60), st.integers(0, 60), st.integers(0, 20), st.integers(0, 20))
def test_offsets_and_epochs_that_are_asked_for(log: list[bytes], start: int, end: int, first: int, last: int) -> None:
    wanted = BatchFilter(start, end, first, last)
    rows = read(b"".join(log), wanted=wanted).rows
    expected = [row for row in truth(log) if start <= row["offset"] < end and first <= row["epoch"] <= last]
    assert [as_truth(row) for row in rows] == expected
    batches = read(b"".join(log), "batches", wanted=wanted).rows
    assert {row["batch_offset"] for row in expected} <= {row["base_offset"] for row in batches}
    assert all(row["base_offset"] < end and row["last_offset"] >= start for row in batches)


@given(logs(), st.data())
def test_times_that_are_asked_for(log: list[bytes], data: st.DataObject) -> None:
    """Times need not rise, within a batch or from one to the next."""
    everything = truth(log)
    times = st.sampled_from([row["timestamp_ms"] for row in everything]) | TIMES_MS
    first, last = sorted((data.draw(times), data.draw(times)))
    for wanted in (BatchFilter(first_ms=first, last_ms=last), BatchFilter(first_ms=first), BatchFilter(last_ms=last)):
        rows = [as_truth(row) for row in read(b"".join(log), wanted=wanted).rows]
        expected = [row for row in everything if wanted.first_ms <= row["timestamp_ms"] <= wanted.last_ms]
        assert rows == expected
        batches = read(b"".join(log), "batches", wanted=wanted).rows
        assert {row["batch_offset"] for row in expected} <= {row["base_offset"] for row in batches}
        assert all(round(row["max_timestamp"].timestamp() * 1000) >= wanted.first_ms for row in batches)


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 1), (1, 2)])
def test_offsets_within_a_batch_whose_records_have_headers(start: int, end: int) -> None:
    headers = (("a", b"1"), ("b", None))
    log = encode_batch([NewRecord(b"x", headers=headers), NewRecord(b"y", headers=headers)], timestamp_ms=5)
    rows = read(log, wanted=BatchFilter(start, end)).rows
    assert [as_truth(row) for row in rows] == truth([log])[start:end]


def test_control_records_are_decoded() -> None:
    target = (ReplicaKey(1, UUID(int=1)), ReplicaKey(2))
    records = [LeaderChange(1, (1, 2), (2,)), KRaftVersion(1), VotersRecord(KAFKAS_VOTERS, target)]
    data = encode_control_batch(records, timestamp_ms=5)
    change, version, voters = read(data, "control").rows
    assert (change["type"], change["leader_id"]) == ("LeaderChange", 1)
    assert (change["voter_ids"], change["granting_voters"]) == ([1, 2], [2])
    assert (version["type"], version["kraft_version"], version["version"]) == ("KRaftVersion", 1, 0)
    assert voters["type"] == "Voters"
    assert voters["voters"] == [
        {
            "id": 1,
            "directory_id": "b8tRS7h4TJ2Vt43Dp85v2A",
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
        }
    ]
    assert voters["target"] == [
        {"id": 1, "directory_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
        {"id": 2, "directory_id": None},
    ]
    assert [row["offset"] for row in (change, version, voters)] == [0, 1, 2]
    assert [row["control_type"] for row in read(data).rows] == ["LeaderChange", "KRaftVersion", "Voters"]


def test_control_records_of_other_types_have_their_number() -> None:
    data = encode_batch([NewRecord(b"", key=b"\0\0\0\1"), NewRecord(b"", key=b"x")], timestamp_ms=5, control=True)
    commit, broken = read(data, "control").rows
    assert (commit["type"], commit["error"]) == ("1", None)
    assert broken["type"] is None
    assert "key b'x'" in broken["error"]
    assert [row["control_type"] for row in read(data).rows] == ["1", None]


def test_a_control_record_whose_value_is_wrong_is_named() -> None:
    key, value = encode_control_record(KRaftVersion(1))
    data = encode_batch([NewRecord(value[:-1], key=key)], timestamp_ms=5, control=True)
    [row] = read(data, "control").rows
    assert row["type"] == "KRaftVersion"
    assert "KRaftVersion control record" in row["error"]


@pytest.mark.parametrize("count", [1, MOST_HEADERS, MOST_HEADERS + 1, 300])
def test_any_number_of_headers(count: int) -> None:
    headers = tuple((f"h{at}", b"x" * at) for at in range(count))
    log = [encode_batch([NewRecord(b"v"), NewRecord(b"w", headers=headers), NewRecord(b"z")], timestamp_ms=5)]
    assert [as_truth(row) for row in read(log[0]).rows] == truth(log)
    sizes = [row["size"] for row in read(log[0]).rows]
    assert sum(sizes) == len(log[0]) - HEADER_BYTES


def test_many_records_in_few_batches_and_few_in_many() -> None:
    """Either way that record starts are found is the decoder's choice for one of them."""
    for in_batch, count in ((1, 3000), (3000, 1)):
        values = [b"%d" % at * (at % 9) for at in range(in_batch * count)]
        log = []
        for start in range(0, len(values), in_batch):
            batch = bytearray(encode_batch([NewRecord(v) for v in values[start : start + in_batch]], timestamp_ms=5))
            patch_base_offset_and_epoch(batch, 0, start, 0)
            log.append(bytes(batch))
        assert [row["value"] for row in read(b"".join(log)).rows] == values


def with_records(count: int, records: bytes) -> bytes:
    """A batch with a right CRC whose header says so many records."""
    batch = bytearray(encode_batch([NewRecord(b"")], timestamp_ms=5)[:HEADER_BYTES] + records)
    batch[23:27] = max(count - 1, 0).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    patch_crc(batch)
    return bytes(batch)


def record(fields: bytes) -> bytes:
    return encode_varint(len(fields)) + fields


WRONG = {
    "a length beyond the batch": (1, b"\x7e" + b"\0" * 8),
    "a negative length": (1, b"\x01" + b"\0" * 8),
    "a key beyond the record": (1, record(b"\0\0\0\x40\1\0\0")),
    "a value beyond the record": (1, record(b"\0\0\0\1\x40\0\0")),
    "a key of length -2": (1, record(b"\0\0\0\3\1\0\0")),
    "bytes behind the record": (1, record(b"\0\0\0\1\1\0\0")),
    "bytes behind the last record": (1, record(b"\0\0\0\1\1\0") + b"\0"),
    "fewer records than it says": (2, record(b"\0\0\0\1\x10" + b"v" * 8 + b"\0")),
    "more records than it says": (1, 2 * record(b"\0\0\0\1\1\0")),
    "records where it says none": (0, record(b"\0\0\0\1\1\0")),
    "so many records as cannot be": (2**31 - 1, record(b"\0\0\0\1\1\0")),
    "a negative number of headers": (1, record(b"\0\0\0\1\1\1")),
    "more headers than there is room for": (1, record(b"\0\0\0\1\1\x40")),
    "a header without a name": (1, record(b"\0\0\0\1\1\2\1\1")),
    "a header whose name is not UTF-8": (1, record(b"\0\0\0\1\1\2\2\xff\1")),
    "a header beyond the record": (1, record(b"\0\0\0\1\1\2\2n\x40")),
    "an endless number": (1, record(b"\0" + b"\xff" * 11 + b"\0\1\1\0")),
}


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("name", WRONG)
def test_records_that_are_wrong_under_a_right_crc(name: str, side_by_side: bool) -> None:
    before = encode_batch([NewRecord(b"a")], timestamp_ms=5)
    batch = bytearray(with_records(*WRONG[name]))
    patch_base_offset_and_epoch(batch, 0, 1, 0)
    [(_, header)] = iter_headers(batch)
    after = bytearray(encode_batch([NewRecord(b"b")], timestamp_ms=5))
    patch_base_offset_and_epoch(after, 0, header.next_offset, 0)
    data = bytes(before + batch + after)
    with pytest.raises(ProtocolError) as refused:
        decode_records(data, len(before), header)
    first, wrong, last = read(data, side_by_side=side_by_side).rows
    assert (first["value"], first["error"], last["value"], last["error"]) == (b"a", None, b"b", None)
    assert wrong["error"] == str(refused.value)
    assert (wrong["position"], wrong["size"], wrong["offset"]) == (len(before), len(batch), None)
    assert wrong["crc_ok"]


def with_offset_deltas(deltas: list[int], last_offset_delta: int, *, is_control: bool = False) -> bytes:
    """A batch with a right CRC of small records that say those offset deltas."""
    key, value = encode_control_record(KRaftVersion(1))
    rest = encode_varint(len(key)) + key + encode_varint(len(value)) + value + b"\0"
    records = b"".join(record(b"\0\0" + encode_varint(delta) + rest) for delta in deltas)
    batch = bytearray(with_records(len(deltas), records))
    batch[23:27] = last_offset_delta.to_bytes(4, "big")
    batch[CRC_START + 1] |= 0x20 if is_control else 0
    patch_crc(batch)
    return bytes(batch)


@pytest.mark.parametrize(
    ("deltas", "last", "problem"),
    [
        ([0, -1], 1, "offset delta -1 of a record, expected one from 1 to 1"),
        ([-1], 0, "offset delta -1 of a record, expected one from 0 to 0"),
        ([0, 2], 1, "offset delta 2 of a record, expected one from 1 to 1"),
        ([0, 0], 1, "offset delta 0 of a record, expected one from 1 to 1"),
        ([1, 0], 1, "offset delta 0 of a record, expected one from 2 to 1"),
        ([0, 2**31], 1, "offset delta 2147483648 of a record, expected one from 1 to 1"),
    ],
)
@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("content", ["records", "control"])
def test_offsets_that_a_batch_has_not(
    deltas: list[int], last: int, problem: str, side_by_side: bool, content: str
) -> None:
    before = encode_control_batch([KRaftVersion(1)] * 2, timestamp_ms=5)
    wrong = bytearray(with_offset_deltas(deltas, last, is_control=True))
    patch_base_offset_and_epoch(wrong, 0, 2, 0)
    after = bytearray(encode_control_batch([KRaftVersion(1)] * 2, timestamp_ms=5))
    patch_base_offset_and_epoch(after, 0, 3 + last, 0)
    table = read(bytes(before + wrong + after), content, side_by_side=side_by_side)
    assert [row["offset"] for row in table.sound] == [0, 1, 3 + last, 4 + last]
    [error] = table.errors
    assert (error["position"], error["offset"]) == (len(before), None)
    assert error["error"] == f"batch at offset 2: {problem}"


def test_offsets_count_from_each_batch_anew() -> None:
    """Batches that are sound are not gone through one by one."""
    batch = encode_batch([NewRecord(b"a"), NewRecord(b"b")], timestamp_ms=5)
    ends = np.array([1, 2, 3]) * len(batch)
    spans = Spans(ends - len(batch) + HEADER_BYTES, ends, np.array([2, 2, 2]))
    fields, unusual = read_records(batch * 3, spans)
    assert (len(fields), unusual, misnumbered(fields, np.array([1, 1, 1]))) == (6, set(), set())
    assert misnumbered(fields, np.array([1, 0, 1])) == {1}


@pytest.mark.parametrize("deltas", [[0, 5, 9], [3], [9], [1, 2, 3]])
@pytest.mark.parametrize("content", ["records", "control"])
def test_a_batch_that_was_compacted_is_sound(deltas: list[int], content: str) -> None:
    table = read(with_offset_deltas(deltas, 9, is_control=True), content)
    assert table.errors == []
    assert [row["offset"] for row in table.rows] == deltas


def test_an_empty_batch_has_no_rows() -> None:
    data = with_records(0, b"")
    assert read(data).rows == []
    [row] = read(data, "batches").rows
    assert (row["record_count"], row["error"]) == (0, None)


@pytest.mark.parametrize("timestamp_ms", [2**62, -(2**62), 253_402_300_800_000])
def test_a_time_that_no_column_can_say_is_named(timestamp_ms: int) -> None:
    data = encode_batch([NewRecord(b"v", timestamp_ms=timestamp_ms), NewRecord(b"w")], timestamp_ms=5)
    far, near = read(data).rows
    assert (far["timestamp"], far["value"]) == (None, b"v")
    assert str(timestamp_ms) in far["error"]
    assert (near["value"], near["error"]) == (b"w", None)
    assert str(timestamp_ms) in read(data, "batches").rows[0]["error"]


def test_a_codec_that_does_not_exist() -> None:
    batch = bytearray(encode_batch([NewRecord(b"v")], timestamp_ms=5))
    batch[CRC_START + 1] |= 6
    patch_crc(batch)
    [row] = read(bytes(batch)).rows
    assert "compression 6 is not one of 0 to 4" in row["error"]
    assert read(bytes(batch), "batches").rows[0]["compression"] == "6"


@given(logs())
def test_columns_that_are_not_asked_for_change_nothing(log: list[bytes]) -> None:
    data = b"".join(log)
    for content in ("records", "batches"):
        whole = read(data, content).rows
        names = ("offset", "value", "error") if content == "records" else ("base_offset", "crc_ok", "error")
        columns = [column for column in COLUMNS[content] if column.name in names]
        assert read(data, content, columns=columns).rows == [{c.name: row[c.name] for c in columns} for row in whole]


def test_a_file_with_few_batches_repeats_its_constants_as_few_times() -> None:
    rows = Rows(pa.schema([("directory", pa.string())]), {"directory": "d" * 100})
    few = rows.make(3, {})
    assert few.column("directory").to_pylist() == ["d" * 100] * 3
    assert few.get_total_buffer_size() < 1000
    assert rows.make(5000, {}).num_rows == 5000
    assert rows.make(4, {}).column("directory").to_pylist() == ["d" * 100] * 4
