"""Steps over runs of records that are alike: the same end as walking them one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraft_trio.storage.batches.record_check import _walk, _walk_ordinary
from kraft_trio.storage.batches.uniform_records import SHORTEST_RUN, end_of_uniform
from kraft_trio.storage.batches.varint import encode_varint
from tests.storage.test_record_check import record


def field(size: int | None) -> bytes:
    return b"\x01" if size is None else encode_varint(size) + bytes(size)


def run(count: int, fields: bytes, times: list[int], first: int = 0) -> bytes:
    """Records that differ in offset and time only."""
    return b"".join(
        record(first + number, timestamp_delta=times[number % len(times)], fields=fields) for number in range(count)
    )


_sizes = st.none() | st.integers(0, 3) | st.integers(62, 66) | st.just(1024)
_times = st.lists(st.integers(-64, 63), min_size=1, max_size=3) | st.lists(
    st.integers(64, 8191), min_size=1, max_size=3
)


@given(
    count=st.integers(1, 150),
    key=_sizes,
    value=_sizes,
    times=_times | st.lists(st.integers(-9000, 9000), min_size=1, max_size=3),
    first=st.sampled_from([0, 1, 60, 64, 8180]),
    change=st.none() | st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
    cut=st.integers(0, 40),
)
@example(count=100, key=None, value=5, times=[0], first=0, change=(0.5, 0x80), cut=0)
def test_a_run_ends_where_its_records_do(
    count: int,
    key: int | None,
    value: int | None,
    times: list[int],
    first: int,
    change: tuple[float, int] | None,
    cut: int,
) -> None:
    data = bytearray(run(count, field(key) + field(value) + b"\x00", times, first))
    if change is not None:
        where, byte = change
        data[int(where * len(data))] = byte
    cut_data = bytes(data[: len(data) - cut])
    assert _walk(cut_data, 0, first, first + count) == _walk_ordinary(cut_data, 0, first, first + count)


@pytest.mark.parametrize("which", [[0], [10], range(20)], ids=["first", "another", "all"])
@pytest.mark.parametrize(
    ("fields", "time"),
    [
        (field(1) + field(2), 100),
        (field(None) + field(70), 1),
        (field(66) + field(None), 1),
        (field(66) * 2, 8191),
        (field(None) + field(9000), 1),
    ],
    ids=["short", "value", "key", "both", "long"],
)
def test_each_byte_of_the_structure_counts(fields: bytes, time: int, which: Sequence[int]) -> None:
    one = len(record(70, timestamp_delta=time, fields=fields + b"\x00"))
    data = bytearray(run(20, fields + b"\x00", [time], 70))
    assert len(data) == 20 * one
    for place in {*range(min(one, 20)), *range(max(0, one - 20), one)}:
        as_it_was = bytes(data)
        for byte in range(256):
            for number in which:
                data[number * one + place] = byte
            assert _walk(bytes(data), 0, 70, 90) == _walk_ordinary(bytes(data), 0, 70, 90)
        data[:] = as_it_was


@given(count=st.integers(SHORTEST_RUN, 63), value=_sizes, times=_times)
def test_records_that_are_alike_are_a_run(count: int, value: int | None, times: list[int]) -> None:
    data = run(count, b"\x01" + field(value) + b"\x00", times)
    assert end_of_uniform(data, 0, 0, count) == (count, len(data))


def test_a_run_is_as_long_as_its_offsets_have_one_size() -> None:
    data = run(100, b"\x01\x02v\x00", [0])
    assert end_of_uniform(data, 0, 0, 100)[0] == 64
    assert end_of_uniform(data, *reversed(end_of_uniform(data, 0, 0, 100)), 100) == (100, len(data))


def test_a_length_of_three_bytes_is_not_read_as_one_of_two() -> None:
    """Its third byte would pass for the attributes, and what follows for a record that is a byte shorter."""
    fields = field(4000) + field(4990) + b"\x00"
    content = [bytes(2) + encode_varint(number) + fields for number in range(70, 90)]
    [size] = {2 * len(one) for one in content}
    length = bytes([size & 0x7F | 0x80, size >> 7])
    assert length[1] >= 0x80
    data = length + length.join(content)
    assert _walk(data, 0, 70, 90) == _walk_ordinary(data, 0, 70, 90) == (70, 0, 0)
