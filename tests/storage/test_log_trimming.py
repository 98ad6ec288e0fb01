"""A log that is trimmed behind its snapshots (`Log.trim`)."""

from __future__ import annotations

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.errors import (
    CorruptLogError,
    CorruptSnapshotError,
    OffsetOutOfRangeError,
    StorageFailure,
)
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs
from kraft_trio.storage.segments.recovery_point import decode_recovery_point
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.grown_logs import (
    EVERYTHING,
    files,
    grown,
    new_disk,
    reopened,
    reopened_after_kill,
    start_offsets,
    voters_of,
)
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    batch,
    take_snapshot,
    values_in,
    values_of_snapshot,
    write_snapshot,
)


class TestTrimming:
    async def test_segments_go_that_a_snapshot_covers_and_no_others(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        offsets = start_offsets(disk)
        assert not await log.trim(EVERYTHING)
        assert start_offsets(disk) == offsets
        covered = offsets[3] + 1
        await take_snapshot(log, covered)
        assert await log.trim(EVERYTHING)
        assert start_offsets(disk) == offsets[3:]
        assert log.log_start_offset == offsets[3] < covered
        assert values_in(log)[-1] == b"011"
        assert not await log.trim(EVERYTHING)

    async def test_the_active_segment_stays(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, log.end_offset)
        active = start_offsets(disk)[-1]
        await log.trim(EVERYTHING)
        assert start_offsets(disk) == [active]
        assert log.end_offset == 14

    async def test_within_the_limits_nothing_goes(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        size = log.size_in_bytes + log.snapshots.file(OffsetAndEpoch(8, 1)).size_in_bytes
        assert not await log.trim(RetentionLimits(size, None))
        assert await log.trim(RetentionLimits(size - 1, None))
        assert len(files(disk, ".log.deleted")) == 1

    async def test_age_deletes_what_the_oldest_snapshot_covers_then_it(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        # The log's clock stands at 0.  The records say 1000, but a client chose that.
        disk.now_ms = lambda: 100
        older = await take_snapshot(log, 5)
        disk.now_ms = lambda: 200
        newer = await take_snapshot(log, 8)
        assert not await log.trim(RetentionLimits(None, -100))
        assert log.snapshots.ids == (older, newer)
        assert await log.trim(RetentionLimits(None, -101))
        assert log.snapshots.ids == (newer,)
        assert files(disk, ".checkpoint") == [checkpoint_name(newer)]
        assert 0 < log.log_start_offset <= 8

    async def test_renamed_first_and_removed_later(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 5)
        await take_snapshot(log, 8)
        calls: list[tuple[str, str]] = []
        disk.hook = lambda operation, path: calls.append((operation, path))
        await log.trim(EVERYTHING)
        renames = [at for at, call in enumerate(calls) if call[0] == "rename" and call[1].endswith(".deleted")]
        assert len(renames) >= 3
        assert all(calls[at + 1][0] == "sync_directory" for at in renames)
        gone = files(disk, ".deleted")
        assert [calls[at][1].rpartition("/")[2] for at in renames if ".log." in calls[at][1]] == [
            name for name in gone if ".log." in name
        ]
        await log.remove_retired()
        assert files(disk, ".deleted") == []
        await log.remove_retired()

    async def test_what_cannot_be_removed_harms_nobody(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        disk.fail("remove")
        with structlog.testing.capture_logs() as logs:
            await log.remove_retired()
        assert [entry["event"] for entry in logs] == ["cannot remove a file that is no longer needed"]
        assert len(files(disk, ".deleted")) == 1
        assert log.poisoned is None
        await log.close()
        await reopened(disk).close()
        assert files(disk, ".deleted") == []

    async def test_indexes_go_with_their_segment(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        sealed = start_offsets(disk)[:-1]
        assert files(disk, ".index") == [f"{offset:020d}.index" for offset in sealed]
        assert files(disk, ".timeindex") == [f"{offset:020d}.timeindex" for offset in sealed]

    async def test_epochs_begin_where_the_log_does(self) -> None:
        disk = new_disk()
        log = reopened(disk)
        for number in range(16):
            log.append_as_leader(batch(b"%03d" % number), 1 + number // 5)
        await log.sync()
        log.advance_high_watermark(16)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        start = log.log_start_offset
        assert start == 6
        assert log.epochs.entries == ((2, 6), (3, 10), (4, 15))
        assert decode_leader_epochs("f", disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint")) == [
            (2, 6),
            (3, 10),
            (4, 15),
        ]
        assert reopened_after_kill(disk).epochs.entries == log.epochs.entries

    async def test_an_emptied_log_keeps_its_knowledge_when_reopened(self) -> None:
        disk = new_disk()
        await grown(disk)
        log = reopened_after_kill(disk)
        log.truncate_to(start_offsets(disk)[-1])
        await log.sync()
        end = log.end
        await take_snapshot(log, end.offset)
        await log.trim(EVERYTHING)
        assert log.log_start_offset == log.end_offset == end.offset
        again = reopened_after_kill(disk)
        assert log.epochs.entries == again.epochs.entries == ()
        assert log.end == again.end == end

    async def test_reads_and_appends_afterwards_are_the_same_as_ever(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        before = log.read(9, 10_000)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        assert log.read(9, 10_000) == before
        log.append_as_leader(encode_control_batch([LeaderChange(1, (1,), (1,))], timestamp_ms=0), 2)
        log.append_as_leader(batch(b"later"), 2)
        await log.sync()
        values = values_in(log)
        assert values[-1] == b"later"
        disk.crash("all")
        log = reopened(disk)
        assert values_in(log) == values
        assert (log.log_start_offset, log.end) == (6, OffsetAndEpoch(16, 2))

    async def test_state_and_log_together_are_what_the_log_was(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        for offset in (4, 8, 13):
            await take_snapshot(log, offset)
            await log.trim(EVERYTHING)
        newest = log.snapshots.newest
        assert newest is not None
        rest = [value for value in values_in(log) if value is not None]
        everything = values_of_snapshot(log, newest) + rest[-(log.end_offset - newest.offset) :]
        assert everything == [b"%03d" % number for number in range(12)]

    async def test_a_damaged_older_snapshot_is_skipped_and_trimmed(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        await log.close()
        disk.damage(log.snapshots.path(older), 20)
        log = reopened(disk)
        # At open the newest is read, and was whole.
        assert log.snapshots.ids == (older, newer)
        with structlog.testing.capture_logs() as logs:
            assert await log.trim(EVERYTHING)
        assert [entry["event"] for entry in logs] == ["damaged snapshot ignored"]
        assert (log.snapshots.ids, log.snapshots.damaged) == ((newer,), {})
        assert 5 < log.log_start_offset <= 8
        await log.remove_retired()
        assert files(disk, ".checkpoint") == [checkpoint_name(newer)]

    async def test_behind_the_newest_that_is_damaged_nothing_is_trimmed(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        disk.damage(log.snapshots.path(newer), 20)
        with pytest.raises(CorruptSnapshotError, match=r"8-0000000001\.checkpoint: position 0"):
            await log.trim(EVERYTHING)
        assert (log.log_start_offset, log.poisoned, log.snapshots.ids) == (0, None, (older, newer))

    @pytest.mark.parametrize("operation", ["rename", "sync_directory"])
    async def test_a_disk_that_fails_poisons(self, operation: str) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.fail(operation)
        with pytest.raises(StorageFailure, match="injected: EIO"):
            await log.trim(EVERYTHING)
        assert log.poisoned is not None
        disk.crash("all")
        assert reopened(disk).end_offset == 14

    async def test_a_full_disk_can_be_trimmed(self) -> None:
        """Room is made by renaming and removing: nothing of that takes any."""
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.capacity = 0
        epochs = disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint")
        assert await log.trim(EVERYTHING)
        assert (log.log_start_offset, log.poisoned) == (6, None)
        await log.remove_retired()
        assert files(disk, ".deleted") == []
        assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == epochs
        disk.capacity = None
        log.append_as_leader(batch(b"room"), 1)
        await log.sync()
        again = reopened_after_kill(disk)
        assert values_in(again)[-1] == b"room"
        path = f"{DIRECTORY}/leader-epoch-checkpoint"
        assert decode_leader_epochs(path, disk.read_bytes(path)) == list(again.epochs.entries) == [(1, 6)]

    async def test_a_disk_that_fails_to_store_epochs_poisons_too(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.fail("append", name="leader-epoch-checkpoint.tmp")
        with pytest.raises(StorageFailure, match="injected: EIO"):
            await log.trim(EVERYTHING)

    async def test_the_recovery_point_holds_across_a_trim(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        await log.trim(EVERYTHING)
        disk.kill()
        record = decode_recovery_point(disk.read_bytes(f"{DIRECTORY}/recovery-point"))
        assert record is not None
        assert record.synced_end_offset == 14
        last = f"{DIRECTORY}/{files(disk, '.log')[-1]}"
        disk.damage(last, 30)
        with pytest.raises(CorruptLogError, match="synced up to offset 14, so this is not a torn tail"):
            reopened(disk)
        assert last != FIRST_SEGMENT


class TestWhileOthersWork:
    """A trim waits for the device between its steps; the rest of the log continues."""

    async def test_what_is_appended_and_truncated_meanwhile_is_as_ever(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.sync_latency = lambda: 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.trim, EVERYTHING)
            await trio.sleep(0.5)
            assert log.log_start_offset == 0
            log.append_as_leader(batch(b"kept"), 1)
            end_offset = log.end_offset
            log.append_as_leader(batch(b"dropped"), 1)
            log.truncate_to(end_offset)
            await trio.sleep(1)
            assert 0 < log.log_start_offset < 6, "a step at a time"
            with pytest.raises(OffsetOutOfRangeError):
                log.read(0, 1000)
            log.append_as_leader(batch(b"after"), 1)
        assert log.log_start_offset == 6
        await log.sync()
        values = values_in(log)
        assert values[-2:] == [b"kept", b"after"]
        disk.crash("all")
        again = reopened(disk)
        assert (again.log_start_offset, values_in(again)) == (6, values)

    async def test_the_log_is_not_replaced_under_a_trim(self, autojump_clock: trio.testing.MockClock) -> None:
        """A crash would leave the segment that is on its way out next to the new one."""
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        snapshot_id = OffsetAndEpoch(40, 2)
        await write_snapshot(disk, snapshot_id, ControlState(1000, voters_of(1, 2), 1), [b"state"])
        disk.sync_latency = lambda: 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.trim, EVERYTHING)
            await trio.sleep(0.5)
            log.add_snapshot(snapshot_id)
            with pytest.raises(AssertionError, match="truncated fully while a trim is under way"):
                log.truncate_fully_to(snapshot_id)
            async with log.trimming:
                assert log.log_start_offset > 0
                log.truncate_fully_to(snapshot_id)
        assert (log.log_start_offset, log.end_offset) == (40, 40)
        disk.crash("all")
        assert reopened(disk).log_start_offset == 40

    async def test_a_cancelled_trim_ends_with_the_step_under_way(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.sync_latency = lambda: 1.0
        with trio.move_on_after(0.5) as scope:
            await log.trim(EVERYTHING)
        assert scope.cancelled_caught
        (retired,) = files(disk, ".log.deleted")
        assert retired == f"{0:020d}.log.deleted"
        assert 0 < log.log_start_offset < 6
        assert start_offsets(disk)[0] == log.log_start_offset
        assert await log.trim(EVERYTHING)
        assert log.log_start_offset == 6

    async def test_what_is_spared_is_asked_for_before_each_step(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        # Once the log before it has gone, somebody asks for the older one.
        limits = RetentionLimits(log.size_in_bytes, None)
        assert await log.trim(limits, lambda: [older] if log.log_start_offset else [])
        assert log.snapshots.ids == (older, newer)
        assert 0 < log.log_start_offset <= older.offset
        assert await log.trim(limits)
        assert log.snapshots.ids == (newer,)

    async def test_two_trims_take_turns(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.sync_latency = lambda: 1.0
        dropped: list[bool] = []

        async def trim() -> None:
            dropped.append(await log.trim(EVERYTHING))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trim)
            nursery.start_soon(trim)
        assert sorted(dropped) == [False, True]
        assert log.log_start_offset == 6
