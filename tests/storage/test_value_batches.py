"""Values that are written fast have the bytes that they would have as records, wherever they come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batch import NewRecord, encode_batch
from kraft_trio.storage.simulated_disk import SimulatedDisk
from kraft_trio.storage.snapshot_reader import ControlState, open_snapshot
from kraft_trio.storage.snapshot_writer import SnapshotWriter
from kraft_trio.storage.value_batches import MAX_VALUES, encode_values

ID = OffsetAndEpoch(9, 4)


def as_records(values: list[bytes], base_offset: int = 5) -> bytes:
    records = [NewRecord(value) for value in values]
    return encode_batch(records, timestamp_ms=77, base_offset=base_offset, leader_epoch=4)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 512, 513, MAX_VALUES])
@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 63, 64, 200, 8185, 8191, 8192])
def test_values_of_one_size(count: int, size: int) -> None:
    if count * size > 2**20:
        count = 100
    values = [bytes([number % 256]) * size for number in range(count)]
    assert encode_values(values, timestamp_ms=77, base_offset=5, leader_epoch=4) == as_records(values)


def test_values_of_every_size_around_where_a_length_takes_one_more_byte() -> None:
    values = [b"v" * size for size in (*range(130), *range(8100, 8300), 2**20 - 10, 2**20, 2**20 + 10)]
    for start in (0, 70):
        expected = as_records(values[start:])
        assert encode_values(values[start:], timestamp_ms=77, base_offset=5, leader_epoch=4) == expected


@pytest.mark.parametrize("count", [0, MAX_VALUES + 1])
def test_as_many_as_there_are_deltas(count: int) -> None:
    with pytest.raises(AssertionError, match=f"{count} values, expected 1 to {MAX_VALUES}"):
        encode_values([b""] * count, timestamp_ms=0, base_offset=0, leader_epoch=0)


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
    """The rule, one record after the other: a batch is full where the next one, with 32 bytes, goes beyond the size."""
    batches: list[list[NewRecord]] = []
    size = 0
    for item in records:
        record = NewRecord(item) if isinstance(item, bytes) else item
        needed = 32 + len(record.value or b"") + len(record.key or b"")
        needed += sum(32 + 4 * len(name) + len(value or b"") for name, value in record.headers)
        if not batches or size + needed > batch_bytes:
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


async def test_more_values_than_a_fast_batch_takes() -> None:
    values: list[NewRecord | bytes] = [b"v"] * (MAX_VALUES + 10)
    (batch,) = await data_batches(values, 2**20)
    assert [batch] == gathered(values, 2**20)
