"""A log that gives way to a snapshot as a whole (`Log.truncate_fully_to`)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.errors import (
    ProtocolError,
    StorageFailure,
)
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.grown_logs import (
    files,
    follow,
    grown,
    new_disk,
    reopened,
    reopened_after_kill,
    start_offsets,
    voters_of,
)
from tests.storage.support import (
    DIRECTORY,
    batch,
    producer_batch,
    snapshot_state,
    snapshot_values,
    take_snapshot,
    values_in,
    values_of_snapshot,
    voters_batch,
    write_snapshot,
)


class TestTruncatingFully:
    ID = OffsetAndEpoch(100, 5)
    STATE = ControlState(1000, voters_of(4, 5), 1)

    async def installed(self, log: Log) -> None:
        await write_snapshot(log._segments.disk, self.ID, self.STATE, [b"state"])
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
        assert log.voters.removed == ()
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

    async def test_the_first_record_synced_there_is_durable_with_its_file(self) -> None:
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
        with pytest.raises(ProtocolError, match="offset 14: expected offset 100"):
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

    async def test_an_own_snapshot_below_the_new_start_is_dropped(self) -> None:
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
