"""Snapshot files, read batch by batch: damage of any kind is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, iter_headers
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
)
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import (
    check_snapshot,
    open_snapshot,
    read_batches,
    read_control_state,
)
from tests.storage.written_snapshots import ID, NAME, PATH, new_disk, records, write


class NotedSource:
    """A source that notes how much is read at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sizes: list[int] = []

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        self.sizes.append(size)
        return self.data[position : position + size]


class TestReader:
    async def whole(self) -> bytes:
        disk = new_disk()
        await write(disk, records(8, 50), batch_bytes=300)
        return disk.read_bytes(PATH)

    def refused(self, content: bytes) -> str:
        disk = new_disk()
        disk.replace_now(PATH, content)
        with pytest.raises(CorruptSnapshotError) as caught:
            check_snapshot(disk, PATH, ID)
        return str(caught.value)

    async def test_every_bit_counts(self) -> None:
        whole = await self.whole()
        for position in range(len(whole)):
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[position] ^= 1 << bit
                assert "position " in self.refused(bytes(damaged)).removeprefix(f"{PATH}: ")

    async def test_one_that_is_cut_anywhere_is_refused(self) -> None:
        whole = await self.whole()
        for size in range(len(whole)):
            self.refused(whole[:size])
        assert (
            self.refused(whole[:-75]) == f"{PATH}: the snapshot ends at position {len(whole) - 75} without its footer"
        )
        assert self.refused(b"") == f"{PATH}: the snapshot ends at position 0 without its footer"

    async def test_it_says_file_position_and_what_was_expected(self) -> None:
        whole = await self.whole()
        (_, first), (second, header), *_ = iter_headers(whole)
        assert second == first.size_in_bytes
        crc = bytearray(whole)
        crc[second + 100] ^= 1
        assert self.refused(bytes(crc)).startswith(f"{PATH}: position {second}: batch at offset 3: CRC is 0x")
        assert f"its header says {header.crc:#010x}" in self.refused(bytes(crc))
        epoch = bytearray(whole)
        epoch[second + 15] = 6
        assert self.refused(bytes(epoch)) == (
            f"{PATH}: batch at position {second}: epoch 6, expected that of the snapshot's id, 7"
        )
        offset = bytearray(whole)
        offset[second + 7] = 4
        assert self.refused(bytes(offset)) == f"{PATH}: batch at position {second}: base offset 4, expected 3"

    @pytest.mark.parametrize(
        ("batches", "message"),
        [
            (lambda c, d: c(SnapshotHeader(0)) + d(1), "without its footer"),
            (lambda c, d: d(0) + c(SnapshotFooter(), at=1), "one header, as its first record"),
            (lambda c, d: c(SnapshotHeader(0)) + c(SnapshotHeader(0), at=1), "one header, as its first record"),
            (lambda c, d: c(KRaftVersion(1), SnapshotHeader(0)), "one header, as its first record"),
            (lambda c, d: c(SnapshotHeader(0), SnapshotHeader(0)), "one header, as its first record"),
            (lambda c, d: c(SnapshotHeader(0), KRaftVersion(1), KRaftVersion(1)), "once at most"),
            (lambda c, d: c(SnapshotHeader(0), LeaderChange(1, (1,), (1,))), "LeaderChange, expected each of Snapshot"),
            (lambda c, d: c(SnapshotHeader(0), SnapshotFooter()), "SnapshotFooter, expected each of SnapshotHeader"),
            (lambda c, d: c(SnapshotHeader(0)) + c(KRaftVersion(1), at=1), "KRaftVersion, expected each of SnapshotF"),
            (lambda c, d: c(SnapshotHeader(0)) + c(SnapshotFooter(), at=1) + d(2), "follows the snapshot's footer"),
            (lambda c, d: c(SnapshotHeader(0)) + c(SnapshotFooter(), at=2), "base offset 2, expected 1"),
        ],
    )
    def test_one_out_of_order_is_refused(
        self, batches: Callable[[Callable[..., bytes], Callable[[int], bytes]], bytes], message: str
    ) -> None:
        def control(*some: ControlRecord, at: int = 0) -> bytes:
            return encode_control_batch(some, timestamp_ms=0, base_offset=at, leader_epoch=7)

        def data(at: int) -> bytes:
            return encode_batch([NewRecord(b"x")], timestamp_ms=0, base_offset=at, leader_epoch=7)

        assert message in self.refused(batches(control, data))

    async def test_no_more_than_a_batch_is_read_at_a_time(self) -> None:
        disk = new_disk()
        await write(disk, records(1000))
        source = NotedSource(disk.read_bytes(PATH))
        assert sum(batch.header.record_count for batch in read_batches(source)) == 1000 + 4
        assert max(source.sizes) <= 1000 < len(source.data) / 100

    async def test_a_reader_that_stops_in_the_middle_closes_the_file(self, tmp_path: Path) -> None:
        disk = RealDisk()
        await write(disk, records(1000), directory=str(tmp_path))
        before = os.listdir("/proc/self/fd")
        batches = open_snapshot(disk, f"{tmp_path}/{NAME}", ID)
        next(batches)
        batches.close()
        read_control_state(disk, f"{tmp_path}/{NAME}", ID)
        assert os.listdir("/proc/self/fd") == before
        disk.close()

    def test_a_missing_file_is_the_operating_systems_error(self) -> None:
        with pytest.raises(FileNotFoundError):
            check_snapshot(new_disk(), PATH, ID)
