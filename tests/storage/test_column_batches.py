"""Records that are encoded column by column have the bytes that they have one by one, wherever they come from."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches import column_batches
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.batches.column_batches import KNOWN_SIZES, MAX_RECORDS, encode_records, encode_values
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, open_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

ID = OffsetAndEpoch(9, 4)


def encoded_one_by_one(records: Sequence[NewRecord]) -> bytes:
    return encode_batch(records, timestamp_ms=77, base_offset=5, leader_epoch=4)


def encoded_values(values: Sequence[bytes]) -> Buffer:
    return encode_values(values, list(map(len, values)), timestamp_ms=77, base_offset=5, leader_epoch=4)


def encoded_records(records: Sequence[NewRecord]) -> Buffer:
    return encode_records(records, timestamp_ms=77, base_offset=5, leader_epoch=4)


def check(records: Sequence[NewRecord]) -> None:
    """Both ways to encode them, by columns and one by one, give the same bytes."""
    expected = encoded_one_by_one(records)
    assert encoded_records(records) == expected
    values = [record.value for record in records if record.value is not None]
    if records == [NewRecord(value) for value in values]:
        assert encoded_values(values) == expected


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 66, 512, MAX_RECORDS, MAX_RECORDS + 1])
@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 63, 64, 200, 8175, KNOWN_SIZES - 1, KNOWN_SIZES])
def test_records_of_one_size(count: int, size: int) -> None:
    if count * size > 2**20:
        count = 100
    values = [bytes([number % 256]) * size for number in range(count)]
    check([NewRecord(value) for value in values])
    check([NewRecord(value, key=b"k") for value in values])
    check([NewRecord(value, timestamp_ms=number) for number, value in enumerate(values)])


@pytest.mark.parametrize("key", [None, b"", b"k" * 63, b"k" * 64, b"k" * 8100])
def test_every_size_around_where_a_length_takes_one_more_byte(key: bytes | None) -> None:
    values = [b"v" * size for size in (*range(130), *range(8100, KNOWN_SIZES))]
    for start in (0, 70, len(values) - 3):
        check([NewRecord(value, key) for value in values[start:]])
        check([NewRecord(value, key, timestamp_ms=len(value) - 100) for value in values[start:]])


@pytest.mark.parametrize("size", [KNOWN_SIZES, 2**20 - 10, 2**20, 2**20 + 10])
def test_large_ones_among_others(size: int) -> None:
    check([NewRecord(b"v"), NewRecord(b"v" * size), NewRecord(b"")])
    check([NewRecord(b"v", b"k"), NewRecord(b"v" * size, b"k"), NewRecord(b"", b"k")])
    check([NewRecord(b"v", b"k"), NewRecord(b"v", b"k" * size), NewRecord(b"", b"k")])


FIELDS = st.sampled_from([0, 1, 20, 63, 64, 300, 8100]).map(lambda size: b"x" * size)
HEADERS = st.just((("name", b"value"), ("name", None)))
TIMES = st.sampled_from([-1, 0, 76, 77, 78, 200, 2**40, 2**62])


@given(
    st.sampled_from([2, 30, 100]).flatmap(
        lambda count: st.one_of(
            st.lists(st.builds(NewRecord, FIELDS), min_size=1, max_size=count),
            st.lists(st.builds(NewRecord, FIELDS, FIELDS), min_size=1, max_size=count),
            st.lists(st.builds(NewRecord, FIELDS, FIELDS, timestamp_ms=TIMES), min_size=1, max_size=count),
            st.lists(st.builds(NewRecord, FIELDS, timestamp_ms=st.none() | TIMES), min_size=1, max_size=count),
            st.lists(st.builds(NewRecord, FIELDS, timestamp_ms=st.just(99)), min_size=1, max_size=count),
            st.lists(
                st.builds(NewRecord, st.none() | FIELDS, st.none() | FIELDS, st.just(()) | HEADERS, st.none() | TIMES),
                min_size=1,
                max_size=count,
            ),
        )
    )
)
def test_by_columns_as_one_by_one(records: list[NewRecord]) -> None:
    check(records)


def test_which_records_are_encoded_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above might compare `encode_batch` with itself."""
    plain = [NewRecord(b"v" * size) for size in range(100)]
    keyed = [NewRecord(b"v" * size, b"k" * (200 - size)) for size in range(100)]
    timed = [NewRecord(b"v", timestamp_ms=100 - number) for number in range(100)]
    both = [NewRecord(b"v", b"k", timestamp_ms=100 - number) for number in range(100)]
    expected = [encoded_one_by_one(records) for records in (plain, keyed, timed, both)]
    monkeypatch.setattr(column_batches, "encode_batch", lambda *arguments, **fields: b"one by one")
    assert [encoded_records(records) for records in (plain, keyed, timed, both)] == expected
    assert encoded_values([b"v" * size for size in range(100)]) == expected[0]
    assert encoded_records([*plain, NewRecord(None)]) == b"one by one"


def test_no_record_at_all() -> None:
    with pytest.raises(ValueError, match="records: empty"):
        encoded_records([])
    with pytest.raises(ValueError, match="records: empty"):
        encoded_values([])


async def data_batches(records: list[NewRecord | bytes], batch_bytes: int) -> list[bytes]:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    async with SnapshotWriter(disk, "/data", ID, ControlState(77), batch_bytes=batch_bytes) as writer:
        # In two parts, as `append` may be called more than once.
        await writer.append(records[: len(records) // 3])
        await writer.append(iter(records[len(records) // 3 :]))
        await writer.finish()
    path = f"/data/{disk.list_directory('/data')[0]}"
    return [batch.data for batch in open_snapshot(disk, path, ID) if not batch.header.is_control]


def gathered(records: list[NewRecord | bytes], batch_bytes: int) -> list[bytes]:
    """The rule, one record after the other: a batch is full where the next one, with 32 bytes, goes beyond the size.

    It also ends between two records without a key that have different timestamps, as Kafka's raft reads no such batch.
    """
    batches: list[list[NewRecord]] = []
    size = 0
    for item in records:
        record = NewRecord(item) if isinstance(item, bytes) else item
        needed = 32 + len(record.value or b"") + len(record.key or b"")
        needed += sum(32 + 4 * len(name) + len(value or b"") for name, value in record.headers)
        last = batches[-1][-1] if batches else record
        is_unreadable = last.key is None is record.key and last.timestamp_ms != record.timestamp_ms
        if not batches or size + needed > batch_bytes or is_unreadable:
            batches.append([])
            size = 0
        batches[-1].append(record)
        size += needed
    encoded, offset = [], 1
    for batch in batches:
        encoded.append(encode_batch(batch, timestamp_ms=77, base_offset=offset, leader_epoch=4))
        offset += len(batch)
    return encoded


SIZES = st.sampled_from([0, 1, 30, 64, 100, 300])
VALUES = SIZES.map(lambda size: b"v" * size)
RECORDS = st.one_of(
    VALUES,
    VALUES.map(NewRecord),
    st.builds(NewRecord, st.none() | VALUES, st.none() | VALUES, st.just(()) | st.just((("h", b"x"),)), st.none()),
    st.builds(NewRecord, VALUES, timestamp_ms=st.integers(0, 200)),
)


@given(
    records=st.lists(VALUES, max_size=200)
    | st.lists(VALUES.map(NewRecord), max_size=200)
    | st.lists(RECORDS, max_size=50),
    batch_bytes=st.integers(1, 2000),
)
async def test_batches_are_gathered_by_one_rule(records: list[NewRecord | bytes], batch_bytes: int) -> None:
    assert await data_batches(records, batch_bytes) == gathered(records, batch_bytes)


async def test_more_values_than_are_encoded_by_columns() -> None:
    values: list[NewRecord | bytes] = [b"v"] * (MAX_RECORDS + 10)
    (batch,) = await data_batches(values, 2**20)
    assert [batch] == gathered(values, 2**20)


async def test_values_and_records_in_one_batch() -> None:
    records: list[NewRecord | bytes] = [b"v", NewRecord(b"v", b"k"), b"w", NewRecord(None, b"k")]
    (batch,) = await data_batches(records, 2**20)
    assert [batch] == gathered(records, 2**20)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("text", "record of a snapshot: str 'text', expected NewRecord or bytes"),
        (7, "record of a snapshot: int 7, expected NewRecord or bytes"),
        (NewRecord(cast("bytes", "text")), "value of a record of a snapshot: str 'text', expected bytes or None"),
        (NewRecord(b"v", cast("bytes", 7)), "key of a record of a snapshot: int 7, expected bytes or None"),
        (NewRecord(b"v", cast("bytes", "k")), "key of a record of a snapshot: str 'k', expected bytes or None"),
        (NewRecord(cast("bytes", array("i", [7]))), r"value of a record of a snapshot: array array\('i', "),
        (NewRecord(cast("bytes", memoryview(array("i", [7])))), "records: .* bytes, expected .* from their lengths"),
    ],
)
@pytest.mark.parametrize("others", [[], [b"v"], [NewRecord(b"v", b"k")] * 3, [NewRecord(None)]])
async def test_what_is_no_record(record: object, message: str, others: list[NewRecord | bytes]) -> None:
    with pytest.raises(TypeError, match=message):
        await data_batches([*others, cast("bytes", record)], 2**20)
