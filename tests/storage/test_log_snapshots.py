"""A log next to its snapshots: opened from one, replaced by one, trimmed behind one; refused where neither reaches."""

from __future__ import annotations

import pytest
import structlog

from kraft_trio.errors import (
    CorruptLogError,
    OffsetOutOfRangeError,
)
from kraft_trio.protocol.producers import Duplicate
from kraft_trio.protocol.reconciliation import Diverging, NeedsSnapshot, Valid
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT, checkpoint_name
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.checkpoint import write_bootstrap_checkpoint
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.grown_logs import (
    EVERYTHING,
    files,
    follow,
    grown,
    new_disk,
    reopened,
    start_offsets,
    voters_of,
)
from tests.storage.support import (
    DIRECTORY,
    KAFKAS_VOTERS,
    STATIC_VOTERS,
    batch,
    open_log,
    producer_batch,
    take_snapshot,
    values_in,
    voters_batch,
    write_snapshot,
)


class TestOpening:
    async def test_what_a_snapshot_covers_is_known_to_be_committed(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        snapshot_id = await take_snapshot(log, 8)
        await log.close()
        log = reopened(disk)
        assert log.snapshots.ids == (snapshot_id,)
        assert (log.high_watermark, log.log_start_offset, log.end_offset) == (8, 0, 14)
        with pytest.raises(AssertionError, match="below the high watermark 8"):
            log.truncate_to(7)

    @pytest.mark.parametrize("committed", [5, 6])
    async def test_a_crash_while_one_replaces_a_log_with_an_uncommitted_later_epoch(self, committed: int) -> None:
        """Another leader then committed records of an earlier epoch than this log's last one (Raft, figure 8)."""
        disk = new_disk()
        log = open_log(disk)
        log.append_as_leader(batch(*[b"%d" % number for number in range(5)]), 1)
        await log.sync()
        log.advance_high_watermark(5)
        log.append_as_leader(batch(b"5"), 2)
        await log.sync()
        log.advance_high_watermark(committed)
        await write_snapshot(disk, OffsetAndEpoch(10, 1), ControlState(0), [b"state"])
        disk.kill()
        if committed == 5:
            assert (open_log(disk).log_start_offset, open_log(disk).end_offset) == (10, 10)
        else:
            with pytest.raises(CorruptLogError, match="the log has a record of a later epoch where the snapshot ends"):
                open_log(disk)

    async def test_leftovers_of_snapshots_and_segments_are_removed(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        snapshot_id = await take_snapshot(log, 8)
        await log.close()
        before = disk.peek_names(DIRECTORY)
        leftovers = [
            f"{checkpoint_name(OffsetAndEpoch(9, 1))}.part",
            "00000000000000000009-0000000001-9129.checkpoint.part",
            f"{checkpoint_name(snapshot_id)}.deleted",
            f"{0:020d}.log.deleted",
            f"{0:020d}.index.deleted",
            f"{99:020d}.index",
            f"{99:020d}.timeindex",
        ]
        for name in leftovers:
            disk.replace_now(f"{DIRECTORY}/{name}", b"x")
        await reopened(disk).close()
        assert disk.peek_names(DIRECTORY) == before

    async def test_a_damaged_snapshot_is_skipped_if_the_log_reaches_back(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        sizes = [log.snapshots.file(snapshot_id).size_in_bytes for snapshot_id in (older, newer)]
        assert await log.trim(RetentionLimits(log.size_in_bytes + sum(sizes) - 1, None))
        assert 0 < log.log_start_offset < older.offset
        await log.close()
        disk.damage(log.snapshots.path(newer), 100)
        with structlog.testing.capture_logs() as logs:
            log = reopened(disk)
        assert [entry["event"] for entry in logs if "damaged" in entry["event"]] == ["damaged snapshot ignored"]
        assert log.snapshots.ids == (older,)
        assert list(log.snapshots.damaged) == [newer]
        assert values_in(log)[-1] == b"011"
        assert log.voters.voters == voters_of(1, 2)
        # It is left where it is, and one of the same id takes its place.
        assert disk.exists(log.snapshots.path(newer))
        log.advance_high_watermark(log.end_offset)
        assert await take_snapshot(log, 8) == newer
        assert (log.snapshots.ids, log.snapshots.damaged) == ((older, newer), {})

    async def test_a_whole_log_needs_no_snapshot(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        snapshot_id = await take_snapshot(log, 8)
        await log.close()
        disk.damage(log.snapshots.path(snapshot_id), 0)
        log = reopened(disk)
        assert (log.snapshots.ids, log.high_watermark) == ((), None)
        assert values_in(log) == [b"%03d" % number for number in range(12)]

    async def test_a_trimmed_log_without_a_snapshot_is_refused_unchanged(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        snapshot_id = await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        await log.remove_retired()
        await log.close()
        start = log.log_start_offset
        disk.damage(log.snapshots.path(snapshot_id), 100)
        before = {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)}
        message = rf"the log starts at offset {start}; expected a whole snapshot .*; whole snapshots: none; damaged: .*"
        with pytest.raises(CorruptLogError, match=message + r"8-0000000001\.checkpoint: position 0: .*CRC is 0x"):
            reopened(disk)
        assert {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)} == before

    async def test_one_that_ends_below_the_logs_start_does_not_do(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 2), await take_snapshot(log, 8)
        content = disk.peek(log.snapshots.path(older))
        await log.trim(EVERYTHING)
        await log.remove_retired()
        await log.close()
        assert content is not None
        disk.replace_now(log.snapshots.path(older), content)
        log = reopened(disk)
        assert log.snapshots.ids == (newer,)
        assert files(disk, ".checkpoint") == [checkpoint_name(newer)]
        await log.close()
        disk.replace_now(log.snapshots.path(older), content)
        disk.remove(log.snapshots.path(newer))
        with pytest.raises(CorruptLogError, match="ends there or later; whole snapshots: 2@1"):
            reopened(disk)

    async def test_records_only_in_a_damaged_snapshot_are_not_forgotten(self) -> None:
        """The log gave way to a snapshot, in part, when the node stopped; the snapshot then rots."""
        disk = new_disk()
        log = await grown(disk)
        await log.close()
        snapshot_id = OffsetAndEpoch(100, 3)
        await write_snapshot(disk, snapshot_id, ControlState(1000, voters_of(1, 2), 1), [b"a"])
        path = f"{DIRECTORY}/{checkpoint_name(snapshot_id)}"
        disk.damage(path, 30)
        with pytest.raises(CorruptLogError, match=r"end at offset 14, expected at least 100"):
            reopened(disk)

    @pytest.mark.parametrize(("offset", "epoch"), [(8, 1), (100, 1)])
    async def test_a_log_with_a_later_epoch_at_its_snapshot_is_refused(self, offset: int, epoch: int) -> None:
        disk = new_disk()
        await (await grown(disk, epoch=2)).close()
        await write_snapshot(disk, OffsetAndEpoch(offset, epoch), ControlState(1000, voters_of(1, 2), 1), [b"a"])
        with pytest.raises(CorruptLogError, match=rf"{offset}-0000000001\.checkpoint: the log has a record of a later"):
            reopened(disk)

    @pytest.mark.parametrize(("offset", "epoch"), [(100, 2), (100, 1), (8, 2)])
    async def test_a_log_that_was_to_give_way_does_so(self, offset: int, epoch: int) -> None:
        """The node stopped between the snapshot's rename and the truncation; 8@2 is in the place of other records."""
        disk = new_disk()
        await (await grown(disk)).close()
        snapshot_id = OffsetAndEpoch(offset, epoch)
        await write_snapshot(disk, snapshot_id, ControlState(1000, voters_of(3, 4), 1), [b"a"])
        with structlog.testing.capture_logs() as logs:
            log = reopened(disk)
        assert "log replaced by snapshot" in [entry["event"] for entry in logs]
        assert (log.log_start_offset, log.end, log.synced_end_offset) == (offset, snapshot_id, offset)
        assert (log.high_watermark, log.voters.voters, log.epochs.entries) == (offset, voters_of(3, 4), ())
        assert start_offsets(disk) == [offset]
        await log.remove_retired()
        assert files(disk, ".deleted") == []
        follow(log, b"next", epoch)
        await log.sync()
        disk.crash("all")
        assert values_in(reopened(disk)) == [b"next"]

    async def test_voters_are_the_snapshots_and_then_the_logs(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        log.append_as_leader(voters_batch(voters_of(1, 2, 3)), 1)
        await log.trim(EVERYTHING)
        await log.close()
        log = reopened(disk)
        assert log.log_start_offset > 2
        assert (log.voters.voters, log.voters.kraft_version) == (voters_of(1, 2, 3), 1)
        assert (log.voters.voters_offset, log.voters.voters_at(7)) == (14, voters_of(1, 2))

    async def test_the_bootstrap_voters_are_not_in_force_behind_a_snapshot(self) -> None:
        disk = new_disk()
        write_bootstrap_checkpoint(disk, DIRECTORY, KAFKAS_VOTERS, 1, 0)
        await write_snapshot(disk, OffsetAndEpoch(5, 2), ControlState(1000, voters_of(3), 1), [])
        log = reopened(disk)
        assert (log.voters.voters, log.voters.came_from_bootstrap) == (voters_of(3), False)
        assert files(disk, ".checkpoint")[0] == BOOTSTRAP_CHECKPOINT

    async def test_at_kraft_version_0_the_voters_stay_the_configured_ones(self) -> None:
        disk = new_disk()
        await write_snapshot(disk, OffsetAndEpoch(5, 2), ControlState(1000), [b"x"])
        log = reopened(disk)
        assert (log.voters.voters, log.voters.kraft_version, log.voters.voters_offset) == (STATIC_VOTERS, 0, None)

    async def test_producers_are_the_snapshots_then_the_logs(self) -> None:
        disk = new_disk()
        log = reopened(disk)
        for sequence in range(9):
            log.append_as_leader(producer_batch(b"%03d" % sequence, sequence), 1)
        log.append_as_leader(producer_batch(b"other", 0, producer_id=8), 1)
        await log.sync()
        log.advance_high_watermark(log.end_offset)
        # Some batches of producer 7 are in the log and in the snapshot.
        await take_snapshot(log, 7)
        await log.trim(EVERYTHING)
        assert 0 < log.log_start_offset < 7
        await log.close()
        log = reopened(disk)
        assert log.producers.check(7, 0, 6, 1) == Duplicate(6, 6)
        assert log.producers.check(7, 0, 8, 1) == Duplicate(8, 8)
        assert log.producers.check(8, 0, 0, 1) == Duplicate(9, 9)
        # None is counted twice.
        (seventh, _) = log.producers
        assert [remembered.base_sequence for remembered in seventh.batches] == [6, 7, 8]
        # A truncation that producers cannot follow derives them again from both.
        log.truncate_to(8)
        assert log.producers.check(7, 0, 7, 1) == Duplicate(7, 7)
        assert [producer.producer_id for producer in log.producers] == [7]

    async def test_damaged_producers_in_a_snapshot_are_named(self) -> None:
        disk = new_disk()
        await write_snapshot(disk, OffsetAndEpoch(5, 2), ControlState(1000, producers=b"damaged producers"), [])
        with pytest.raises(Exception, match=r"5-0000000002\.checkpoint: version"):
            reopened(disk)


class TestIds:
    async def test_the_next_snapshot_is_committed_and_ends_with_a_batch(self) -> None:
        log = await grown(new_disk())
        log.append_as_leader(batch(b"not", b"committed"), 2)
        assert log.next_snapshot_id(8) == OffsetAndEpoch(8, 1)
        assert log.next_snapshot_id(14) == OffsetAndEpoch(14, 1)
        for offset in (15, 16):
            with pytest.raises(ValueError, match=f"snapshot up to offset {offset}: the high watermark is 14"):
                log.next_snapshot_id(offset)
        with pytest.raises(ValueError, match="snapshot up to offset 1: inside the batch that begins at 0"):
            log.next_snapshot_id(1)
        await take_snapshot(log, 8)
        assert log.next_snapshot_id(8) is None
        await log.trim(EVERYTHING)
        assert log.next_snapshot_id(9) == OffsetAndEpoch(9, 1)
        with pytest.raises(OffsetOutOfRangeError):
            log.next_snapshot_id(log.log_start_offset - 1)
        log.advance_high_watermark(16)
        assert log.next_snapshot_id(16) == OffsetAndEpoch(16, 2)
        with pytest.raises(ValueError, match="inside the batch that begins at 14"):
            log.next_snapshot_id(15)


class TestReading:
    async def trimmed(self) -> Log:
        disk = new_disk()
        log = await grown(disk)
        log.append_as_leader(batch(b"new"), 3)
        await log.sync()
        log.advance_high_watermark(log.end_offset)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        return log

    async def test_below_the_start_nothing_is_read(self) -> None:
        log = await self.trimmed()
        start = log.log_start_offset
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {start - 1}: the log has offsets {start} to 15"):
            log.read(start - 1, 1000)
        with pytest.raises(OffsetOutOfRangeError):
            log.read(16, 1000)
        assert int.from_bytes(log.read(start, 1)[:8], "big") == start

    async def test_fetch_positions_are_judged_by_what_is_there(self) -> None:
        log = await self.trimmed()
        start = log.log_start_offset
        snapshot_id = OffsetAndEpoch(8, 1)
        assert log.validate_fetch(0, 0) == NeedsSnapshot(snapshot_id)
        assert log.validate_fetch(start - 1, 1) == NeedsSnapshot(snapshot_id)
        assert log.validate_fetch(start, 1) == Valid()
        assert log.validate_fetch(start, 0) == NeedsSnapshot(snapshot_id)
        assert log.validate_fetch(10, 0) == NeedsSnapshot(snapshot_id)
        assert log.validate_fetch(15, 3) == Valid()
        assert log.validate_fetch(15, 1) == Diverging(OffsetAndEpoch(14, 1))
        assert log.validate_fetch(20, 2) == Diverging(OffsetAndEpoch(14, 1))

    async def test_a_blank_replica_gets_the_snapshot_if_there_is_one(self) -> None:
        log = await grown(new_disk())
        assert log.validate_fetch(0, 0) == Valid()
        snapshot_id = await take_snapshot(log, 8)
        assert log.validate_fetch(0, 0) == NeedsSnapshot(snapshot_id)
        # The log reaches back to 0: nobody else needs one.
        assert log.validate_fetch(1, 1) == Valid()
        assert log.validate_fetch(3, 0) == Diverging(OffsetAndEpoch(0, 0))
