"""Indexes of sealed segments: few entries in memory, the same answers."""

from __future__ import annotations

import random

import pytest

from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.offset_index import SEALED_INTERVAL_BYTES, OffsetIndex, TimeIndex
from tests.storage.support import DIRECTORY, batch, open_log

SEGMENT_BYTES = 4 * SEALED_INTERVAL_BYTES
VALUE_BYTES = 900
BATCHES = 800


def written_log(disk: SimulatedDisk, *, times: list[int]) -> Log:
    """One record a batch, with these timestamps."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    for time in times:
        log.append_as_leader(batch(b"x" * VALUE_BYTES, timestamp_ms=time), 1)
    return log


def times_with_old_ones(seed: int) -> list[int]:
    """Most are later than all before; some are old, as clients send them."""
    draw = random.Random(seed)
    return [1000 + number if draw.random() < 0.7 else draw.randrange(1000) for number in range(BATCHES)]


def entries(log: Log) -> list[tuple[int, int]]:
    """Of each segment, oldest first: entries of the offset index and of the time index."""
    return [(len(segment.index), len(segment.time_index)) for segment in log._segments]


async def check_times(log: Log, times: list[int]) -> None:
    """Ask for every timestamp that occurs, and those next to it."""
    wanted = sorted({time + beside for time in times for beside in (0, 1)})
    for time in wanted:
        first = next(((offset, found) for offset, found in enumerate(times) if found >= time), None)
        assert await log.offset_for_timestamp(time) == first, time


class TestThin:
    def test_entries_are_an_interval_apart(self) -> None:
        index, time_index = OffsetIndex(0), TimeIndex(0)
        largest = -1
        for number, time in enumerate((5, 5, 9, 3, 12, 12, 30)):
            largest = max(largest, time)
            index.append(number, number * 100, largest)
            time_index.append_if_later(largest, number)
        time_index.thin_to(index.thin(250))
        assert [index.lookup(offset) for offset in range(7)] == [0, 0, 0, 300, 300, 300, 600]
        assert (len(time_index), time_index.last_entry) == (3, (30, 6))
        index.truncate_to_position(600)
        time_index.truncate_to(6)
        assert time_index.last_entry == (9, 2), "what was the largest up to position 300"

    def test_nothing_to_forget(self) -> None:
        index, time_index = OffsetIndex(0), TimeIndex(0)
        time_index.thin_to(index.thin(100))
        assert (len(index), len(time_index), index.lookup(7)) == (0, 0, 0)


class TestSealedSegments:
    async def test_sealing_and_opening_forget_most_entries(self) -> None:
        disk = SimulatedDisk()
        log = written_log(disk, times=[1000 + number for number in range(BATCHES)])
        most = SEGMENT_BYTES // SEALED_INTERVAL_BYTES
        sealed = entries(log)[:-1]
        assert len(sealed) == 2
        assert all(0 < count <= most and 0 < times <= most for count, times in sealed)
        await log.close()
        reopened = open_log(disk, segment_bytes=SEGMENT_BYTES)
        assert entries(reopened)[:-1] == sealed
        assert entries(reopened)[-1][0] > most, "the active one keeps all"

    async def test_the_files_have_all_entries(self) -> None:
        disk = SimulatedDisk()
        log = written_log(disk, times=[1000 + number for number in range(BATCHES)])
        path = f"{DIRECTORY}/{0:020d}.index"
        written = disk.read_bytes(path)
        assert len(written) > 8 * 10 * len(next(iter(log._segments)).index)
        await log.close()
        await open_log(disk, segment_bytes=SEGMENT_BYTES).close()
        assert disk.read_bytes(path) == written

    async def test_every_offset_and_time_is_found(self) -> None:
        times = times_with_old_ones(1)
        log = written_log(SimulatedDisk(), times=times)
        for offset in range(BATCHES):
            assert log._segments.batch_of(offset)[2] == offset
        await check_times(log, times)

    @pytest.mark.parametrize("seed", range(12))
    async def test_truncation_into_one_finds_its_largest_timestamp(self, seed: int) -> None:
        disk = SimulatedDisk()
        times = times_with_old_ones(seed)
        log = written_log(disk, times=times)
        kept = random.Random(seed).randrange(1, log._segments.active.base_offset)
        log.truncate_to(kept)
        active = log._segments.active
        there = times[active.base_offset : kept]
        if there:
            largest = max(there)
            assert active.max_timestamp_ms == largest
            assert active.last_offset_of_max_timestamp == active.base_offset + there.index(largest)
        times = [*times[:kept], 5000, 3, 7000]
        for time in times[kept:]:
            log.append_as_leader(batch(b"x" * VALUE_BYTES, timestamp_ms=time), 2)
        await check_times(log, times)
        await log.close()
        await check_times(open_log(disk, segment_bytes=SEGMENT_BYTES), times)
