"""A log beside its snapshots: opened from one, replaced by one, trimmed behind one; refused where neither reaches."""

from __future__ import annotations

import pytest
import structlog
import trio
import trio.testing

from kraft_trio.errors import (
    CorruptLogError,
    CorruptSnapshotError,
    OffsetOutOfRangeError,
    ProtocolError,
    StorageFailure,
)
from kraft_trio.protocol.control_records import LeaderChange
from kraft_trio.protocol.producers import Duplicate
from kraft_trio.protocol.reconciliation import Diverging, NeedsSnapshot, Valid
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batch import encode_control_batch
from kraft_trio.storage.batch_header import patch_base_offset_and_epoch
from kraft_trio.storage.checkpoint import write_bootstrap_checkpoint
from kraft_trio.storage.leader_epoch_checkpoint import decode_leader_epochs
from kraft_trio.storage.log import Log
from kraft_trio.storage.partition_files import BOOTSTRAP_CHECKPOINT, checkpoint_name
from kraft_trio.storage.recovery_point import decode_recovery_point
from kraft_trio.storage.retention import RetentionLimits
from kraft_trio.storage.simulated_disk import SimulatedDisk
from kraft_trio.storage.snapshot_reader import ControlState
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    KAFKAS_VOTERS,
    STATIC_VOTERS,
    batch,
    open_log,
    producer_batch,
    snapshot_state,
    snapshot_values,
    take_snapshot,
    values_in,
    values_of_snapshot,
    voters_batch,
    write_snapshot,
)

SEGMENT_BYTES = 240
EVERYTHING = RetentionLimits(0, None)


def voters_of(*ids: int) -> VoterSet:
    return VoterSet([Voter(ReplicaKey(id)) for id in ids])


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return disk


def reopened(disk: SimulatedDisk) -> Log:
    return open_log(disk, segment_bytes=SEGMENT_BYTES)


def files(disk: SimulatedDisk, suffix: str) -> list[str]:
    return [name for name in disk.peek_names(DIRECTORY) if name.endswith(suffix)]


def start_offsets(disk: SimulatedDisk) -> list[int]:
    return [int(name.partition(".")[0]) for name in files(disk, ".log")]


async def grown(disk: SimulatedDisk, count: int = 12, *, epoch: int = 1) -> Log:
    """Offset 0 has voters, then values, three to a segment; everything is synced and committed."""
    log = reopened(disk)
    log.append_as_leader(voters_batch(voters_of(1, 2), kraft_version=1), epoch)
    for number in range(count):
        log.append_as_leader(batch(b"%03d" % number), epoch)
    await log.sync()
    log.advance_high_watermark(log.end_offset)
    return log


def follow(log: Log, value: bytes | None, epoch: int, at: int | None = None) -> None:
    """What a leader sends: one value, or voters 1 and 9."""
    data = bytearray(batch(value) if value is not None else voters_batch(voters_of(1, 9)))
    patch_base_offset_and_epoch(data, 0, log.end_offset if at is None else at, epoch)
    log.append_as_follower(bytes(data))


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

    async def test_a_damaged_snapshot_is_passed_over_where_the_log_reaches_an_older_one(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        sizes = [log.snapshots.file(snapshot_id).size_in_bytes for snapshot_id in (older, newer)]
        assert log.trim(RetentionLimits(log.size_in_bytes + sum(sizes) - 1, None))
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

    async def test_a_trimmed_log_without_a_whole_snapshot_is_refused_and_left_as_it_was(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        snapshot_id = await take_snapshot(log, 8)
        log.trim(EVERYTHING)
        await log.remove_retired()
        await log.close()
        start = log.log_start_offset
        disk.damage(log.snapshots.path(snapshot_id), 100)
        before = {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)}
        message = (
            rf"the log starts at offset {start}, and no snapshot reaches up to it: whole snapshots: none; damaged: .*"
        )
        with pytest.raises(CorruptLogError, match=message + r"8-0000000001\.checkpoint: position 0: .*CRC is 0x"):
            reopened(disk)
        assert {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)} == before

    async def test_one_that_ends_below_the_logs_start_does_not_do(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 2), await take_snapshot(log, 8)
        content = disk.peek(log.snapshots.path(older))
        log.trim(EVERYTHING)
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
        with pytest.raises(CorruptLogError, match="no snapshot reaches up to it: whole snapshots: 2@1"):
            reopened(disk)

    async def test_records_that_only_a_damaged_snapshot_had_are_not_forgotten_in_silence(self) -> None:
        """The log gave way to a snapshot, in part, when the node stopped; the snapshot then rots."""
        disk = new_disk()
        log = await grown(disk)
        await log.close()
        snapshot_id = OffsetAndEpoch(100, 3)
        await write_snapshot(disk, snapshot_id, ControlState(1000, voters_of(1, 2), 1), [b"a"])
        path = f"{DIRECTORY}/{checkpoint_name(snapshot_id)}"
        disk.damage(path, 30)
        with pytest.raises(
            CorruptLogError, match=r"snapshot up to offset 100, and what is left reaches up to offset 14"
        ):
            reopened(disk)

    @pytest.mark.parametrize(("offset", "epoch"), [(8, 1), (100, 1)])
    async def test_a_log_with_a_later_epoch_where_the_snapshot_ends_is_refused(self, offset: int, epoch: int) -> None:
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

    async def test_voters_are_the_snapshots_then_those_that_the_log_has_behind_it(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        log.append_as_leader(voters_batch(voters_of(1, 2, 3)), 1)
        log.trim(EVERYTHING)
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
        log.trim(EVERYTHING)
        assert 0 < log.log_start_offset < 7
        await log.close()
        log = reopened(disk)
        assert log.producers.check(7, 0, 6, 1) == Duplicate(6, 6)
        assert log.producers.check(7, 0, 8, 1) == Duplicate(8, 8)
        assert log.producers.check(8, 0, 0, 1) == Duplicate(9, 9)
        # None is counted twice.
        (seventh, _) = log.producers
        assert [remembered.base_sequence for remembered in seventh.batches] == [6, 7, 8]
        # A truncation that producers cannot follow derives them anew, from both again.
        log.truncate_to(8)
        assert log.producers.check(7, 0, 7, 1) == Duplicate(7, 7)
        assert [producer.producer_id for producer in log.producers] == [7]

    async def test_damaged_producers_in_a_snapshot_are_named(self) -> None:
        disk = new_disk()
        await write_snapshot(disk, OffsetAndEpoch(5, 2), ControlState(1000, producers=b"damaged producers"), [])
        with pytest.raises(Exception, match=r"5-0000000002\.checkpoint: version"):
            reopened(disk)


class TestIds:
    async def test_the_next_snapshot_is_of_what_is_committed_and_ends_with_a_batch(self) -> None:
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
        log.trim(EVERYTHING)
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
        log.trim(EVERYTHING)
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

    async def test_a_replica_with_nothing_gets_the_snapshot_where_there_is_one(self) -> None:
        log = await grown(new_disk())
        assert log.validate_fetch(0, 0) == Valid()
        snapshot_id = await take_snapshot(log, 8)
        assert log.validate_fetch(0, 0) == NeedsSnapshot(snapshot_id)
        # The log reaches back to 0: nobody else needs one.
        assert log.validate_fetch(1, 1) == Valid()
        assert log.validate_fetch(3, 0) == Diverging(OffsetAndEpoch(0, 0))


class TestTruncatingFully:
    ID = OffsetAndEpoch(100, 5)
    STATE = ControlState(1000, voters_of(4, 5), 1)

    async def installed(self, log: Log) -> None:
        await write_snapshot(log._disk, self.ID, self.STATE, [b"state"])
        log.add_snapshot(self.ID)
        log.truncate_fully_to(self.ID)

    async def test_the_log_begins_and_ends_where_the_snapshot_does(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await self.installed(log)
        assert (log.log_start_offset, log.end, log.synced_end_offset, log.high_watermark) == (100, self.ID, 100, 100)
        assert log.size_in_bytes == 0
        assert start_offsets(disk) == [100]
        # Durable on return, names included.
        disk.crash("all")
        log = reopened(disk)
        assert (log.log_start_offset, log.end, log.high_watermark) == (100, self.ID, 100)
        assert values_of_snapshot(log, self.ID) == [b"state"]

    async def test_nothing_stale_is_kept(self) -> None:
        """Scenario S11: uncommitted voters in the log, a snapshot with others."""
        disk = new_disk()
        log = await grown(disk)
        log.append_as_leader(voters_batch(voters_of(1, 2, 3)), 1)
        log.append_as_leader(producer_batch(b"x", 0), 1)
        log.append_as_leader(voters_batch(voters_of(1, 3)), 2)
        woken = []

        async def wait() -> None:
            await log.voters_changed.park()
            woken.append(log.voters.voters)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await self.installed(log)
        assert woken == [voters_of(4, 5)]
        assert (log.voters.voters, log.voters.voters_offset, log.voters.kraft_version) == (voters_of(4, 5), 99, 1)
        assert log.voters.uncommitted(log.high_watermark) == ()
        assert not log.voters.has_named(ReplicaKey(3))
        assert (log.epochs.entries, len(log.producers)) == ((), 0)
        assert decode_leader_epochs("f", disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint")) == []
        again = reopened_after_kill(disk)
        assert (again.voters.voters, again.epochs.entries, len(again.producers)) == (voters_of(4, 5), (), 0)

    async def test_the_log_goes_on_from_there(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await self.installed(log)
        for value, epoch in ((b"1", 5), (b"2", 5), (b"3", 7)):
            follow(log, value, epoch)
        follow(log, None, 7)
        assert await log.sync() == 104
        assert log.epochs.entries == ((5, 100), (7, 102))
        disk.crash("all")
        log = reopened(disk)
        assert values_in(log) == [b"1", b"2", b"3"]
        assert log.voters.voters == voters_of(1, 9)
        log.truncate_to(103)
        assert log.voters.voters == voters_of(4, 5)
        log.truncate_to(100)
        assert log.end == self.ID
        with pytest.raises(AssertionError, match="high watermark 100"):
            log.truncate_to(99)

    async def test_the_first_record_that_is_synced_there_is_durable_and_so_is_its_file(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await self.installed(log)
        follow(log, b"1", 5)
        await log.sync()
        disk.crash("all")
        assert values_in(reopened(disk)) == [b"1"]

    async def test_epochs_do_not_fall_below_the_snapshots(self) -> None:
        log = await grown(new_disk())
        await self.installed(log)
        with pytest.raises(ProtocolError, match="leader epoch 4, expected 5 or more"):
            follow(log, b"old", 4)
        with pytest.raises(AssertionError, match="epoch 4 after 5"):
            log.append_as_leader(batch(b"old"), 4)
        with pytest.raises(ProtocolError, match="offset 14: the log goes on at offset 100"):
            follow(log, b"old", 5, at=14)

    async def test_a_sync_under_way_says_no_more_than_is_true(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        disk.make_directory(DIRECTORY)
        log = await grown(disk)
        for number in range(3):
            log.append_as_leader(batch(b"%d" % number), 1)
        ends = []

        async def sync() -> None:
            ends.append(await log.sync())

        await write_snapshot(disk, self.ID, self.STATE, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            log.add_snapshot(self.ID)
            log.truncate_fully_to(self.ID)
            follow(log, b"next", 5)
        assert ends == [17]
        assert (log.synced_end_offset, log.end_offset) == (100, 101)
        assert await log.sync() == 101

    async def test_a_sync_under_way_does_not_count_what_is_gone(self, autojump_clock: trio.testing.MockClock) -> None:
        """The snapshot ends below the end of the log, whose records there were never committed."""
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        disk.make_directory(DIRECTORY)
        log = await grown(disk)
        for number in range(3):
            log.append_as_leader(batch(b"%d" % number), 1)
        snapshot_id = OffsetAndEpoch(15, 5)
        await write_snapshot(disk, snapshot_id, self.STATE, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.sync)
            await trio.testing.wait_all_tasks_blocked()
            log.add_snapshot(snapshot_id)
            log.truncate_fully_to(snapshot_id)
        assert (log.synced_end_offset, log.end) == (15, snapshot_id)

    async def test_the_recovery_point_goes_back_first(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await write_snapshot(disk, self.ID, self.STATE, [])
        log.add_snapshot(self.ID)
        calls: list[tuple[str, str]] = []
        disk.hook = lambda operation, path: calls.append((operation, path.rpartition("/")[2]))
        log.truncate_fully_to(self.ID)
        changes = [call for call in calls if call[0] not in ("read_at", "list_directory", "view", "read_bytes")]
        assert changes[:2] == [("overwrite", "recovery-point"), ("sync", "recovery-point")]
        renames = [name for operation, name in changes if operation == "rename" and name.endswith(".log.deleted")]
        assert renames == sorted(renames, reverse=True)
        assert len(renames) > 2
        for at, call in enumerate(changes):
            if call in [("rename", name) for name in renames]:
                assert changes[at + 1][0] == "sync_directory"
        assert ("open", f"{100:020d}.log") in changes[changes.index(("rename", renames[-1])) :]

    async def test_it_must_be_the_newest_and_not_below_the_high_watermark(self) -> None:
        log = await grown(new_disk())
        older = await take_snapshot(log, 8)
        with pytest.raises(AssertionError, match="8@1 ends below the high watermark 14"):
            log.truncate_fully_to(older)
        with pytest.raises(AssertionError, match="snapshot 100@5, the newest is 8@1"):
            log.truncate_fully_to(self.ID)
        assert (log.end_offset, log.poisoned) == (14, None)

    async def test_older_snapshots_go(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        await self.installed(log)
        assert log.snapshots.ids == (self.ID,)
        assert files(disk, ".checkpoint") == [checkpoint_name(self.ID)]

    async def test_a_snapshot_of_ones_own_that_ends_below_the_new_start_is_dropped(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        state, values = snapshot_state(log, 8), snapshot_values(log, 8)
        await self.installed(log)
        await write_snapshot(disk, OffsetAndEpoch(8, 1), state, values)
        log.add_snapshot(OffsetAndEpoch(8, 1))
        assert log.snapshots.ids == (self.ID,)
        await log.remove_retired()
        assert files(disk, ".checkpoint") == [checkpoint_name(self.ID)]

    @pytest.mark.parametrize("operation", ["overwrite", "rename", "sync_directory", "open"])
    async def test_a_disk_that_fails_poisons(self, operation: str) -> None:
        disk = new_disk()
        log = await grown(disk)
        await write_snapshot(disk, self.ID, self.STATE, [])
        log.add_snapshot(self.ID)
        disk.fail(operation)
        with pytest.raises(StorageFailure, match="injected: EIO"):
            log.truncate_fully_to(self.ID)
        assert log.poisoned is not None
        disk.crash("all")
        assert reopened(disk).end == self.ID

    async def test_a_watcher_is_told(self) -> None:
        log = await grown(new_disk())
        told: list[object] = []

        class Watcher:
            def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
                told.append((snapshot_id, log.end, log.voters.voters))

            def trimmed(self, log_start_offset: int) -> None: ...

            def high_watermark_advanced(self, old: int | None, new: int) -> None:
                told.append((old, new))

        log.watch(Watcher())  # type: ignore[arg-type]
        await self.installed(log)
        assert told == [(self.ID, self.ID, voters_of(4, 5)), (14, 100)]


def reopened_after_kill(disk: SimulatedDisk) -> Log:
    disk.kill()
    return reopened(disk)


class TestTrimming:
    async def test_segments_go_that_a_snapshot_covers_and_no_others(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        offsets = start_offsets(disk)
        assert not log.trim(EVERYTHING)
        assert start_offsets(disk) == offsets
        covered = offsets[3] + 1
        await take_snapshot(log, covered)
        assert log.trim(EVERYTHING)
        assert start_offsets(disk) == offsets[3:]
        assert log.log_start_offset == offsets[3] < covered
        assert values_in(log)[-1] == b"011"
        assert not log.trim(EVERYTHING)

    async def test_the_active_segment_stays(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, log.end_offset)
        active = start_offsets(disk)[-1]
        log.trim(EVERYTHING)
        assert start_offsets(disk) == [active]
        assert log.end_offset == 14

    async def test_within_the_limits_nothing_goes(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        size = log.size_in_bytes + log.snapshots.file(OffsetAndEpoch(8, 1)).size_in_bytes
        assert not log.trim(RetentionLimits(size, None))
        assert log.trim(RetentionLimits(size - 1, None))
        assert len(files(disk, ".log.deleted")) == 1

    async def test_by_age_what_the_oldest_snapshot_covers_goes_then_the_snapshot(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older = await take_snapshot(log, 5)
        newer = await take_snapshot(log, 8)
        # The clock stands at 0, and the records are of 1000.
        assert not log.trim(RetentionLimits(None, -1000))
        assert log.snapshots.ids == (older, newer)
        assert log.trim(RetentionLimits(None, -1001))
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
        log.trim(EVERYTHING)
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
        log.trim(EVERYTHING)
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
        log.trim(EVERYTHING)
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
        log.trim(EVERYTHING)
        start = log.log_start_offset
        assert start == 6
        assert log.epochs.entries == ((2, 6), (3, 10), (4, 15))
        assert decode_leader_epochs("f", disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint")) == [
            (2, 6),
            (3, 10),
            (4, 15),
        ]
        assert reopened_after_kill(disk).epochs.entries == log.epochs.entries

    async def test_what_is_read_and_appended_afterwards_is_the_same_as_ever(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        before = log.read(9, 10_000)
        await take_snapshot(log, 8)
        log.trim(EVERYTHING)
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
            log.trim(EVERYTHING)
        newest = log.snapshots.newest
        assert newest is not None
        rest = [value for value in values_in(log) if value is not None]
        everything = values_of_snapshot(log, newest) + rest[-(log.end_offset - newest.offset) :]
        assert everything == [b"%03d" % number for number in range(12)]

    async def test_an_older_snapshot_that_is_damaged_is_passed_over_and_goes_with_the_log_before_it(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        older, newer = await take_snapshot(log, 5), await take_snapshot(log, 8)
        await log.close()
        disk.damage(log.snapshots.path(older), 20)
        log = reopened(disk)
        # At open the newest is read, and was whole.
        assert log.snapshots.ids == (older, newer)
        with structlog.testing.capture_logs() as logs:
            assert log.trim(EVERYTHING)
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
            log.trim(EVERYTHING)
        assert (log.log_start_offset, log.poisoned, log.snapshots.ids) == (0, None, (older, newer))

    @pytest.mark.parametrize("operation", ["rename", "sync_directory"])
    async def test_a_disk_that_fails_poisons(self, operation: str) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.fail(operation)
        with pytest.raises(StorageFailure, match="injected: EIO"):
            log.trim(EVERYTHING)
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
        assert log.trim(EVERYTHING)
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

    async def test_a_disk_that_fails_to_take_the_epochs_poisons_all_the_same(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        disk.fail("append", name="leader-epoch-checkpoint.tmp")
        with pytest.raises(StorageFailure, match="injected: EIO"):
            log.trim(EVERYTHING)

    async def test_the_recovery_point_holds_across_a_trim(self) -> None:
        disk = new_disk()
        log = await grown(disk)
        await take_snapshot(log, 8)
        log.trim(EVERYTHING)
        disk.kill()
        assert decode_recovery_point(disk.read_bytes(f"{DIRECTORY}/recovery-point")) == 14
        last = f"{DIRECTORY}/{files(disk, '.log')[-1]}"
        disk.damage(last, 30)
        with pytest.raises(CorruptLogError, match="synced up to offset 14, so this is no torn tail"):
            reopened(disk)
        assert last != FIRST_SEGMENT
