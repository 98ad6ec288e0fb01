"""A log that drops its end: offsets, epochs, voters and producers go back, on disk and in memory."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.producers import Accept, Duplicate
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.log.log_appender import Appended
from tests.storage.support import DIRECTORY, batch, log_of, open_log, values_in


class TestTruncate:
    def test_epochs_producers_and_records_go_back(self) -> None:
        log = log_of(1, 2, 3)
        log.append_as_leader(batch(b"p", producer_id=7, producer_epoch=0, base_sequence=0), 3)
        log.truncate_to(2)
        assert (log.end, log.epochs.entries) == (OffsetAndEpoch(2, 1), ((1, 0),))
        assert values_in(log) == [b"0@1", b"1@1"]
        assert isinstance(log.producers.check(7, 0, 0, 1), Accept)
        assert log.append_as_leader(batch(b"x"), 4) == Appended(2, 3)
        assert values_in(log) == [b"0@1", b"1@1", b"x"]

    def test_to_the_end_changes_nothing(self) -> None:
        log = log_of(1)
        log.truncate_to(2)
        assert log.end_offset == 2

    @pytest.mark.parametrize(
        ("offset", "message"), [(3, "inside the batch that begins at offset 2"), (7, "has offsets")]
    )
    def test_into_a_batch_or_beyond_the_end_is_refused(self, offset: int, message: str) -> None:
        log = log_of(1, 1, 1)
        before = log.read(0, 1 << 20)
        with pytest.raises(ValueError, match=message):
            log.truncate_to(offset)
        assert log.read(0, 1 << 20) == before

    def test_below_the_high_watermark_is_a_bug(self) -> None:
        log = log_of(1, 1, 1)
        log.advance_high_watermark(4)
        with pytest.raises(AssertionError, match="below the high watermark 4"):
            log.truncate_to(2)
        log.truncate_to(4)
        assert log.end_offset == 4

    def test_producers_are_derived_anew_where_they_forgot_too_much(self) -> None:
        log = log_of()
        for sequence in range(12):
            log.append_as_leader(batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence), 1)
        log.truncate_to(4)
        assert log.producers.check(7, 0, 3, 1) == Duplicate(3, 3)
        assert log.producers.check(7, 0, 0, 1) == Duplicate(0, 0)
        assert isinstance(log.producers.check(7, 0, 4, 1), Accept)

    async def test_across_segments(self) -> None:
        disk = SimulatedDisk()
        log = log_of(*[1] * 10, disk=disk, segment_bytes=200)
        segments = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")]
        assert len(segments) == 5
        await log.sync()
        log.truncate_to(6)
        assert values_in(log) == [f"{offset}@1".encode() for offset in range(6)]
        assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")] == segments[:2]
        log.append_as_leader(batch(b"x"), 2)
        await log.close()
        reopened = open_log(disk, segment_bytes=200)
        assert values_in(reopened)[-2:] == [b"5@1", b"x"]

    async def test_index_files_do_not_outlive_what_they_index(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=80)
        for time in (1000, 5000, 6000):
            log.append_as_leader(batch(b"x", timestamp_ms=time), 1)
        await log.close()
        log = open_log(disk, segment_bytes=80)

        def index_files() -> list[str]:
            return [name for name in disk.list_directory(DIRECTORY) if name.endswith("index")]

        log.truncate_to(1)
        assert index_files() == [f"{0:020d}.index", f"{0:020d}.timeindex"]
        log.truncate_to(0)
        assert index_files() == []
        log.append_as_leader(batch(b"x", timestamp_ms=2000), 1)
        await log.close()
        assert disk.read_bytes(f"{DIRECTORY}/{0:020d}.timeindex") == (2000).to_bytes(8, "big") + bytes(4)

    async def test_the_indexes_of_a_truncated_segment_match_what_is_left(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        for number in range(40):
            log.append_as_leader(batch(b"x" * 900, timestamp_ms=1000 + number), 1)
        log.truncate_to(23)
        await log.close()
        paths = [f"{DIRECTORY}/{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
        written = [disk.read_bytes(path) for path in paths]
        for path in paths:
            disk.remove(path)
        await open_log(disk).close()
        assert [disk.read_bytes(path) for path in paths] == written

    async def test_what_vouched_for_the_dropped_part_is_gone_before_it_is(self) -> None:
        disk = SimulatedDisk()
        await log_of(1, 1, 1, disk=disk).close()
        log = open_log(disk)
        calls: list[tuple[str, str]] = []
        disk.hook = lambda operation, path: calls.append((operation, path.rpartition("/")[2]))
        log.truncate_to(2)
        relevant = [call for call in calls if call[0] in ("remove", "sync_directory", "truncate")]
        assert relevant == [
            ("remove", f"{6:020d}.snapshot"),
            ("sync_directory", "__cluster_metadata-0"),
            ("truncate", f"{0:020d}.log"),
        ]
