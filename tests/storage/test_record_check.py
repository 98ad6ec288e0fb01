"""The check of produced records against the decoder: one verdict, but for the offset deltas."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import (
    BatchHeader,
    Compression,
    NewRecord,
    decode_records,
    encode_batch,
    peek_header,
)
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.batches.compression import compress
from kraft_trio.storage.batches.record_check import (
    check_records,
    check_steps,
    is_small_and_sound,
    may_be_honest_about_time,
)
from kraft_trio.storage.batches.record_limits import produce_limits
from kraft_trio.storage.batches.varint import encode_varint
from tests.storage.support import batch
from tests.support import sizes

CAP = 1 << 20


def with_records(data: bytes, count: int, compression: Compression = Compression.NONE) -> tuple[bytes, BatchHeader]:
    """A batch of these record bytes, well-formed or not."""
    header = peek_header(batch(b"x", base_offset=1000))._replace(
        record_count=count,
        attributes=int(compression),
        size_in_bytes=HEADER_BYTES + len(data),
    )
    return bytes(HEADER_BYTES) + data, header


def verdict_of_the_decoder(buffer: bytes | bytearray, position: int, header: BatchHeader) -> bool:
    try:
        records = decode_records(buffer, position, header, CAP)
    except ProtocolError:
        return False
    return [record.offset - header.base_offset for record in records] == list(range(header.record_count))


def verdict_of_the_check(buffer: bytes | bytearray, position: int, header: BatchHeader) -> bool:
    try:
        check_records(buffer, position, header, CAP)
    except ProtocolError:
        return False
    return True


def record(
    offset_delta: int, *, timestamp_delta: int = 0, fields: bytes = b"\x01\x02x\x00", attributes: int = 0
) -> bytes:
    content = bytes([attributes]) + encode_varint(timestamp_delta) + encode_varint(offset_delta) + fields
    return encode_varint(len(content)) + content


def wide(value: int, extra: int) -> bytes:
    """The same number in more bytes than it needs."""
    encoded = bytearray(encode_varint(value))
    for _ in range(extra):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


# Around where a length takes one, two and three bytes.
_sizes = st.one_of(st.integers(0, 5), st.integers(60, 68), st.integers(8185, 8200))
_bytes = st.one_of(st.none(), _sizes.map(bytes))
_headers = st.lists(st.tuples(st.text(max_size=3) | st.sampled_from(["é" * 40, "n" * 64]), _bytes), max_size=3)
_records = st.lists(
    st.builds(
        NewRecord,
        value=_bytes,
        key=_bytes,
        headers=_headers.map(tuple),
        timestamp_ms=st.sampled_from([0, 1, 5000, 5063, 5064, 10**5, 10**12]),
    ),
    min_size=1,
    max_size=6,
)


@given(records=_records, compression=st.sampled_from(Compression))
def test_what_is_encoded_is_not_refused(records: list[NewRecord], compression: Compression) -> None:
    encoded = encode_batch(records, timestamp_ms=5000, base_offset=77, compression=compression)
    check_records(encoded, 0, peek_header(encoded), CAP)


@pytest.mark.parametrize("count", [64, 65, 8192, 8193])
def test_batches_of_many_records_are_not_refused(count: int) -> None:
    encoded = batch(*[b"v"] * count)
    check_records(encoded, 0, peek_header(encoded), CAP)


@settings(max_examples=sizes.examples(500))
@given(
    records=st.lists(
        st.builds(NewRecord, value=_bytes, key=st.none() | st.binary(max_size=3), headers=_headers.map(tuple)),
        min_size=1,
        max_size=4,
    ),
    compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
    data=st.data(),
)
def test_mutated_batches_are_judged_as_the_decoder_judges_them(
    records: list[NewRecord], compression: Compression, data: st.DataObject
) -> None:
    content = bytearray(encode_batch(records, timestamp_ms=5000)[HEADER_BYTES:])
    count = len(records)
    interesting = st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(0, 255)
    for _ in range(data.draw(st.integers(1, 3))):
        # Most of a long value says nothing: mutate at either end of the records.
        position = data.draw(st.integers(0, min(len(content) - 1, 40)) | st.integers(-min(len(content), 12), -1))
        match data.draw(st.sampled_from(["set", "insert", "delete", "count"])):
            case "set":
                content[position] = data.draw(interesting)
            case "insert":
                content.insert(position, data.draw(interesting))
            case "delete" if len(content) > 1:
                del content[position]
            case _:
                count = max(0, count + data.draw(st.sampled_from([-1, 1])))
    buffer, header = with_records(compress(compression, bytes(content)), count, compression)
    assert verdict_of_the_check(buffer, 0, header) == verdict_of_the_decoder(buffer, 0, header)


@settings(max_examples=sizes.examples(500))
@given(
    st.lists(st.sampled_from([0, 1, 2, 4, 6, 12, 14, 16, 18, 20, 0x7E, 0x80, 0x81, 0xFF]), max_size=40),
    st.integers(0, 5),
)
@example([14, 0, 0, 0, 1, 2, 120, 0], 1)
@example([18, 0, 0, 0, 1, 2, 120, 2, 0, 1], 1)
def test_possible_records_are_judged_as_the_decoder_judges_them(content: list[int], count: int) -> None:
    buffer, header = with_records(bytes(content), count)
    assert verdict_of_the_check(buffer, 0, header) == verdict_of_the_decoder(buffer, 0, header)


@given(
    extra=st.lists(st.integers(0, 9), min_size=6, max_size=6),
    delta=st.sampled_from([0, 1, -1, 64, 8192]),
    value=st.binary(max_size=3),
)
def test_overlong_numbers_are_judged_as_the_decoder_judges_them(extra: list[int], delta: int, value: bytes) -> None:
    content = b"\x00" + wide(delta, extra[0]) + wide(0, extra[1]) + wide(-1, extra[2])
    content += wide(len(value), extra[3]) + value + wide(0, extra[4])
    data = wide(len(content), extra[5]) + content + record(1)
    buffer, header = with_records(data, 2)
    assert verdict_of_the_check(buffer, 0, header) == verdict_of_the_decoder(buffer, 0, header)


def test_a_number_in_two_bytes_where_one_would_do_is_not_refused() -> None:
    content = b"\x00" + wide(3, 1) + wide(0, 1) + wide(1, 1) + b"k" + wide(1, 1) + b"v" + b"\x00"
    buffer, header = with_records(wide(len(content), 1) + content, 1)
    check_records(buffer, 0, header, CAP)


@pytest.mark.parametrize(
    ("deltas", "message"),
    [
        ([1], "offset delta 1 of a record, expected its place in the batch, 0"),
        ([0, 0], "offset delta 0 of a record, expected its place in the batch, 1"),
        ([0, 2], "offset delta 2 of a record, expected its place in the batch, 1"),
        ([0, 1, -2], "offset delta -2 of a record, expected its place in the batch, 2"),
        ([0, 8192, 2], "offset delta 8192 of a record, expected its place in the batch, 1"),
    ],
)
def test_an_offset_delta_is_the_records_place_in_the_batch(deltas: list[int], message: str) -> None:
    buffer, header = with_records(b"".join(record(delta) for delta in deltas), len(deltas))
    with pytest.raises(ProtocolError, match=f"batch at offset 1000: {message}"):
        check_records(buffer, 0, header, CAP)


# Each is refused though its last record, walked blindly, would end where the batch ends.
@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (record(0) + b"zz", 1, "2 bytes follow its last record"),
        (record(0), 0, "8 bytes follow its last record"),
        (record(0), 2, "2 records cannot be in 8 bytes"),
        (b"\x0d" + record(0)[1:], 1, "a record of -7 bytes"),
        (b"\x0c" + record(0)[1:], 1, "a record of 6 bytes ends -1 bytes off"),
        (b"\x10" + record(0)[1:], 1, "a record of 8 bytes, 7 are left"),
        (b"\x10" + record(0)[1:] + b"\x00", 1, "a record of 8 bytes ends 1 bytes off"),
        (record(0, fields=b"\x03\x02x\x00"), 1, "record field of -2 bytes"),
        (record(0, fields=b"\x01\x03x\x00"), 1, "record field of -2 bytes"),
        (record(0, fields=b"\x01\x83\x01" + b"x" * 65 + b"\x00"), 1, "record field of -66 bytes"),
        (record(0, fields=b"\x01\x02x\x7e"), 1, "63 of them cannot be in 0 bytes"),
        (record(0, fields=b"\x01\x02x\x01"), 1, "-1 of them cannot be"),
        (record(0, fields=b"\x01\x02x\x02\x01\x01"), 1, "its name is null"),
        (record(0, fields=b"\x01\x02x\x02\x02\xff\x01"), 1, "is not UTF-8"),
        (record(0, fields=b"\x01\x02x\x02\x02n\x03"), 1, "record field of -2 bytes"),
        (record(0, fields=b"\x01\x02x\x02\x02n\x04v"), 1, "record field of 2 bytes"),
        (record(0) + b"\x80" * 5 + b"\x01" * 2, 2, "longer than 5 bytes"),
        (record(0) + b"\x00" * 3 + b"\x80" * 4, 2, "cut"),
    ],
)
def test_unsound_records_are_refused_as_the_decoder_refuses_them(data: bytes, count: int, message: str) -> None:
    buffer, header = with_records(data, count)
    with pytest.raises(ProtocolError, match=message):
        check_records(buffer, 0, header, CAP)
    with pytest.raises(ProtocolError, match=message):
        decode_records(buffer, 0, header, CAP)


# Walked two bytes at a time, or with the sign left out, each of these would end where the batch ends.
@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"\x0f" + record(0)[1:], 1, "a record of -8 bytes"),
        (b"\x80\x80" + b"\x01\x00\x00\x01\xf2\x7f" + bytes(8185) + b"\x00", 1, "8192 bytes, 8191 are left"),
        (record(0, fields=b"\x03k\x02x\x00"), 1, "record field of -2 bytes"),
        (record(0, fields=b"\x83\x01" + b"k" * 65 + b"\x02x\x00"), 1, "record field of -66 bytes"),
        (record(0, fields=b"\x01\x02x\x02\x02n\x03v"), 1, "record field of -2 bytes"),
    ],
)
def test_lengths_are_read_whole_and_with_their_sign(data: bytes, count: int, message: str) -> None:
    buffer, header = with_records(data, count)
    with pytest.raises(ProtocolError, match=message):
        decode_records(buffer, 0, header, CAP)
    with pytest.raises(ProtocolError, match=message):
        check_records(buffer, 0, header, CAP)


def test_an_offset_delta_of_three_bytes_is_read_whole() -> None:
    # The decoder sees a key of one byte and no header count; without the third byte it would be a null key.
    last = b"\x10\x00\x00\x80\x80\x01\x02x\x00"
    buffer, header = with_records(b"".join(record(delta) for delta in range(8192)) + last, 8193)
    with pytest.raises(ProtocolError, match="cut"):
        decode_records(buffer, 0, header, CAP)
    with pytest.raises(ProtocolError, match="cut"):
        check_records(buffer, 0, header, CAP)


def test_a_record_does_not_reach_into_the_next() -> None:
    # The first record's value takes two bytes of the second, whose own end would be right.
    first = b"\x0e\x00\x00\x00\x01\x06x\x00"
    buffer, header = with_records(first + record(1), 2)
    with pytest.raises(ProtocolError, match="record field of 3 bytes"):
        check_records(buffer, 0, header, CAP)


def test_a_batch_is_not_refused_for_the_bytes_around_it() -> None:
    encoded = batch(b"a", b"b")
    buffer = bytearray(b"xx" + encoded + b"following")
    check_records(buffer, 2, peek_header(buffer, 2), CAP)
    check_records(bytes(buffer), 2, peek_header(buffer, 2), CAP)


def test_a_cut_batch_is_refused() -> None:
    encoded = batch(b"abc")
    with pytest.raises(ProtocolError, match="cut, 70 of its bytes are left"):
        check_records(encoded[:-1], 0, peek_header(encoded), CAP)


def test_records_above_the_cap_are_refused() -> None:
    encoded = encode_batch([NewRecord(bytes(5000))], timestamp_ms=0, compression=Compression.ZSTD)
    check_records(encoded, 0, peek_header(encoded), 6000)
    with pytest.raises(ProtocolError, match="more than 4000 bytes when decompressed"):
        check_records(encoded, 0, peek_header(encoded), 4000)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("times", [[0], [0, 8191], [0, 8192], [0, 2**62, 5], [2**62, 0], [2**63 - 1, 0], [-5, -1]])
def test_a_batch_is_as_late_as_its_latest_record(times: list[int], codec: Compression) -> None:
    records = [NewRecord(b"v", timestamp_ms=at) for at in times]
    whole = bytearray(encode_batch(records, timestamp_ms=0, compression=codec))
    assert is_accepted(whole)
    whole[35:43] = (2**63 - 1).to_bytes(8, "big")
    assert is_accepted(whole) == (max(times) > 2**63 - 8192)


def is_accepted(whole: bytearray) -> bool:
    """As a leader judges a produced batch."""
    header = peek_header(whole)
    if may_be_honest_about_time(header) and is_small_and_sound(whole, 0, header):
        return True
    try:
        for _ in check_steps(whole, 0, header, produce_limits(len(whole), CAP, CAP)):
            pass
    except ProtocolError:
        return False
    return True
