"""Record batches: Kafka's bytes, round trips, and everything that is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import (
    BatchHeader,
    Compression,
    NewRecord,
    Record,
    check_client_batch,
    check_crc,
    decode_control_batch,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_headers,
    patch_base_offset_and_epoch,
    peek_header,
    whole_batches_size,
)
from kraft_trio.storage.batches.batch_header import patch_crc
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange, SnapshotFooter, VotersRecord
from kraft_trio.storage.batches.varint import decode_varint, decode_varlong, encode_varint
from tests.storage.support import KAFKAS_VOTERS, batch, kafkas_files

FIRST_LOG = f"{0:020d}.log"


def test_kafkas_first_batch_is_encoded_byte_for_byte() -> None:
    log = kafkas_files("dynamic")[FIRST_LOG]
    header = peek_header(log)
    encoded = encode_control_batch(
        [LeaderChange(1, (1,), (1,)), KRaftVersion(1), VotersRecord(KAFKAS_VOTERS)],
        timestamp_ms=header.base_timestamp_ms,
        leader_epoch=1,
    )
    assert encoded == log[: header.size_in_bytes]


@pytest.mark.parametrize(("directory", "base_offset"), [("dynamic", 3), ("static", 1)])
def test_kafkas_data_batch_is_encoded_byte_for_byte(directory: str, base_offset: int) -> None:
    log = kafkas_files(directory)[FIRST_LOG]
    position, header = list(iter_headers(log))[1]
    encoded = encode_batch(
        [NewRecord(b"hello"), NewRecord(b"raft")],
        timestamp_ms=header.base_timestamp_ms,
        base_offset=base_offset,
        leader_epoch=1,
    )
    assert encoded == log[position:]


def test_kafkas_log_is_read() -> None:
    log = kafkas_files("dynamic")[FIRST_LOG]
    (first, control), (second, data) = iter_headers(log)
    assert (control.is_control, control.base_offset, control.next_offset, control.leader_epoch) == (True, 0, 3, 1)
    assert (data.is_control, data.last_offset, data.compression) == (False, 4, Compression.NONE)
    for position, header in ((first, control), (second, data)):
        check_crc(log, position, header)
    assert [record.value for record in decode_records(log, second, data)] == [b"hello", b"raft"]
    assert list(decode_control_batch(log, first, control)) == [
        (0, LeaderChange(1, (1,), (1,))),
        (1, KRaftVersion(1)),
        (2, VotersRecord(KAFKAS_VOTERS)),
    ]


_bytes = st.one_of(st.none(), st.binary(max_size=300))
_records = st.lists(
    st.builds(
        NewRecord,
        value=_bytes,
        key=_bytes,
        headers=st.lists(st.tuples(st.text(max_size=5), _bytes), max_size=3).map(tuple),
        timestamp_ms=st.one_of(st.none(), st.integers(0, 2**45)),
    ),
    min_size=1,
    max_size=20,
)


@given(
    records=_records,
    compression=st.sampled_from(Compression),
    base_offset=st.integers(0, 2**60),
    epoch=st.integers(0, 2**31 - 1),
)
def test_what_is_encoded_is_decoded(
    records: list[NewRecord], compression: Compression, base_offset: int, epoch: int
) -> None:
    encoded = encode_batch(
        records,
        timestamp_ms=5_000,
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=7,
        producer_epoch=2,
        base_sequence=9,
        compression=compression,
    )
    header = peek_header(encoded)
    check_client_batch(encoded, 0, header)
    times = [5_000 if record.timestamp_ms is None else record.timestamp_ms for record in records]
    assert decode_records(encoded, 0, header) == [
        Record(base_offset + index, time, record.key, record.value, record.headers)
        for index, (record, time) in enumerate(zip(records, times, strict=True))
    ]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 9)
    assert (header.leader_epoch, header.compression) == (epoch, compression)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (times[0], max(times))
    assert (header.size_in_bytes, header.record_count) == (len(encoded), len(records))
    assert header.next_offset == base_offset + len(records)


def test_a_batch_has_a_record() -> None:
    with pytest.raises(ValueError, match="records: empty"):
        encode_batch([], timestamp_ms=0)


def test_log_append_time_is_every_records_time() -> None:
    encoded = bytearray(batch(b"a", b"b", timestamp_ms=10))
    encoded[22] |= 0x08
    encoded[35:43] = (99).to_bytes(8, "big")
    assert [record.timestamp_ms for record in decode_records(encoded, 0, peek_header(encoded))] == [99, 99]


def test_the_leader_sets_offset_and_epoch_but_not_the_crc() -> None:
    buffer = bytearray(b"xx" + batch(b"a", b"b"))
    patch_base_offset_and_epoch(buffer, 2, 1234567890123, 77)
    header = peek_header(buffer, 2)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (1234567890123, 1234567890124, 77)
    check_crc(buffer, 2, header)
    assert [record.value for record in decode_records(buffer, 2, header)] == [b"a", b"b"]


@pytest.mark.parametrize("position", [21, 30, 60, 61, 70, -1])
def test_a_flipped_bit_under_the_crc_is_noticed(position: int) -> None:
    buffer = bytearray(batch(b"some value"))
    header = peek_header(buffer)
    buffer[position] ^= 0x10
    with pytest.raises(ProtocolError, match="batch at offset 0: CRC is"):
        check_crc(buffer, 0, header)


def test_the_crc_of_a_cut_batch_is_not_computed() -> None:
    whole = batch(b"some value")
    with pytest.raises(ProtocolError, match=f"{len(whole) - 1} bytes are left, it has {len(whole)}"):
        check_crc(whole[:-1], 0, peek_header(whole))


@pytest.mark.parametrize(
    ("position", "replacement", "message"),
    [
        (16, b"\x01", "magic 1, expected 2"),
        (16, b"\x00", "magic 0, expected 2"),
        (8, b"\x00\x00\x00\x30", "length 48, a batch has 49 or more"),
        (8, b"\xff\xff\xff\xff", "length -1"),
        (0, b"\xff", "none of them may be negative"),
        (23, b"\xff\xff\xff\xff", "last offset delta -1"),
        (57, b"\x80\x00\x00\x00", "none of them may be negative"),
    ],
)
def test_a_header_that_no_batch_has_is_refused(position: int, replacement: bytes, message: str) -> None:
    buffer = bytearray(batch(b"a"))
    buffer[position : position + len(replacement)] = replacement
    with pytest.raises(ProtocolError, match=message):
        peek_header(buffer)


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60])
def test_a_cut_header_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"{size} bytes are left, a header has 61"):
        peek_header(batch(b"a")[:size])


def test_old_magic_is_named_even_where_a_header_is_too_short() -> None:
    with pytest.raises(ProtocolError, match="magic 0, expected 2"):
        peek_header(bytes(30))


def test_a_codec_that_does_not_exist_is_refused() -> None:
    header = peek_header(batch(b"a"))
    wrong = header._replace(attributes=5)
    with pytest.raises(ProtocolError, match="compression 5 is not one of 0 to 4"):
        wrong.compression  # noqa: B018


def test_headers_are_walked_until_a_batch_is_cut() -> None:
    first, second = batch(b"a"), batch(b"bb")
    headers = iter_headers((first + second)[:-1])
    assert next(headers)[1].size_in_bytes == len(first)
    with pytest.raises(ProtocolError, match=f"batch at position {len(first)}: {len(second) - 1} bytes are left"):
        next(headers)


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 60, 70])
def test_whole_batches_are_told_from_a_cut_one(cut: int) -> None:
    first, second = batch(b"a"), batch(b"b" * 20)
    assert whole_batches_size(first + second[:cut]) == len(first)
    assert whole_batches_size(first + second) == len(first + second)


def test_a_length_that_no_batch_has_is_no_cut_batch() -> None:
    with pytest.raises(ProtocolError, match="length 0"):
        whole_batches_size(bytes(12))


def _with_records(data: bytes, count: int = 1) -> tuple[bytes, BatchHeader]:
    encoded = batch(b"x")
    buffer = bytearray(encoded[:61] + data)
    buffer[8:12] = (len(buffer) - 12).to_bytes(4, "big")
    buffer[57:61] = count.to_bytes(4, "big")
    return bytes(buffer), peek_header(buffer)


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"\x0e\x00\x00\x00\x01\x02x\x00" + b"zz", 1, "2 bytes follow its last record"),
        (b"\x0e\x00\x00\x00\x01\x02x\x00", 0, "8 bytes follow"),
        (b"\x0e\x00\x00\x00\x01\x02x\x00", 2, "2 records cannot be in 8 bytes"),
        (b"\x0e\x00\x00\x00\x01\x02x\x00", 2**31 - 1, "cannot be in 8 bytes"),
        (b"\x10\x00\x00\x00\x01\x02x\x00", 1, "a record of 8 bytes, 7 are left"),
        (b"\x0d\x00\x00\x00\x01\x02x\x00", 1, "a record of -7 bytes"),
        (b"\x0c\x00\x00\x00\x01\x02x\x00", 1, "record of 6 bytes ends -1 bytes off"),
        (b"\x0e\x00\x00\x00\x05\x02x\x00", 1, "record field of -3 bytes"),
        (b"\x0e\x00\x00\x00\x01\x40x\x00", 1, "record field of 32 bytes"),
        (b"\x0e\x00\x00\x00\x01\x02x\x7e", 1, "63 of them cannot be in 0 bytes"),
        (b"\x0e\x00\x00\x00\x01\x02x\x01", 1, "-1 of them cannot be"),
        (b"\x12\x00\x00\x00\x01\x02x\x02\x01\x01", 1, "its name is null"),
        (b"\x14\x00\x00\x00\x01\x02x\x02\x02\xff\x01", 1, "is not UTF-8"),
        (b"\x80" * 5 + b"\x01" * 2, 1, "longer than 5 bytes"),
        (b"\x00" * 3 + b"\x80" * 4, 1, "cut"),
    ],
)
def test_records_that_are_not_as_the_format_says_are_refused(data: bytes, count: int, message: str) -> None:
    buffer, header = _with_records(data, count)
    with pytest.raises(ProtocolError, match=message):
        decode_records(buffer, 0, header)


def test_a_cut_batch_is_not_decoded() -> None:
    whole = batch(b"abc")
    with pytest.raises(ProtocolError, match="cut"):
        decode_records(whole[:-1], 0, peek_header(whole))


@given(st.binary(min_size=61, max_size=200), st.integers(0, 199))
def test_garbage_is_refused_and_never_crashes(garbage: bytes, magic_like: int) -> None:
    buffer = bytearray(garbage)
    buffer[16] = 2
    buffer[8:12] = (len(buffer) - 12).to_bytes(4, "big")
    try:
        header = peek_header(buffer)
        records = decode_records(buffer, 0, header, max_decompressed_bytes=10_000)
    except ProtocolError:
        return
    assert len(records) == header.record_count


def test_a_control_batch_is_not_a_clients_to_write() -> None:
    control = encode_control_batch([SnapshotFooter()], timestamp_ms=0)
    with pytest.raises(ProtocolError, match="a control batch"):
        check_client_batch(control, 0, peek_header(control))


def test_a_client_counts_its_records_right() -> None:
    encoded, _ = _with_records(b"\x0e\x00\x00\x00\x01\x02x\x00" * 2, count=2)

    buffer = bytearray(encoded)
    patch_crc(buffer)
    with pytest.raises(ProtocolError, match="2 records with last offset delta 0, expected 1 records"):
        check_client_batch(buffer, 0, peek_header(buffer))


def test_a_control_record_without_a_key_is_refused() -> None:
    encoded = encode_batch([NewRecord(b"v")], timestamp_ms=0, control=True)
    with pytest.raises(ProtocolError, match="without key or value"):
        list(decode_control_batch(encoded, 0, peek_header(encoded)))


def test_control_records_of_unknown_type_are_left_out() -> None:
    marker = NewRecord(key=b"\x00\x00\x00\x01", value=b"\x00\x00\x00\x00\x00\x00")
    encoded = encode_batch([marker], timestamp_ms=0, control=True)
    assert list(decode_control_batch(encoded, 0, peek_header(encoded))) == []


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varlong(encoded, 0) == (value, len(encoded))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded, 0) == (value, len(encoded))


def test_a_varint_that_kafka_cannot_read_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        decode_varint(b"\x82\x80\x80\x80\x80\x00", 0)
    with pytest.raises(ProtocolError, match="longer than 10 bytes"):
        decode_varlong(b"\x82" + b"\x80" * 9 + b"\x00", 0)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(ProtocolError, match="more than 64 bits"):
            decode_varlong(encode_varint(value), 0)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\x00"), (-1, b"\x01"), (1, b"\x02"), (63, b"\x7e"), (64, b"\x80\x01"), (-64, b"\x7f")]
)
def test_varints_are_zigzag(value: int, encoded: bytes) -> None:
    assert encode_varint(value) == encoded


@pytest.mark.parametrize("count", [1, 64, 65, 4096, 4097, 5000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192])
def test_records_with_a_value_alone_are_encoded_as_any_others(count: int, size: int) -> None:
    """Beyond 4096 of them, and with a time of their own, they are encoded the long way."""
    values = [bytes([number % 256]) * size for number in range(count)]
    short = encode_batch([NewRecord(value) for value in values], timestamp_ms=7)
    assert short == encode_batch([NewRecord(value, timestamp_ms=7) for value in values], timestamp_ms=7)
    header = peek_header(short)
    assert [record.value for record in decode_records(short, 0, header)] == values


def test_the_batch_time_is_that_of_its_first_record() -> None:
    mixed = [NewRecord(b"a", timestamp_ms=5), NewRecord(b"b"), NewRecord(b"c", timestamp_ms=9), NewRecord(None)]
    encoded = encode_batch(mixed, timestamp_ms=7)
    header = peek_header(encoded)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (5, 9)
    assert [record.timestamp_ms for record in decode_records(encoded, 0, header)] == [5, 7, 9, 7]
