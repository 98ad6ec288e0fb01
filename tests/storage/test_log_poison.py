"""What of a log is durable, and the failure that is for ever (scenario S12)."""

from __future__ import annotations

import errno

import pytest
import trio
import trio.testing

from kraft_trio.errors import NodeClosedError, StorageFailure
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from tests.storage.support import DIRECTORY, at, batch, log_of, open_log, values_in


class TestSync:
    async def test_appended_is_not_synced_until_synced(self) -> None:
        log = log_of(1)
        assert (log.end_offset, log.synced_end_offset) == (2, 0)
        assert await log.sync() == 2
        assert log.synced_end_offset == 2

    async def test_what_is_appended_during_a_sync_is_not_counted(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        log = log_of(1, disk=disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.sync)
            await trio.testing.wait_all_tasks_blocked()
            log.append_as_leader(batch(b"x"), 1)
        assert (log.end_offset, log.synced_end_offset) == (3, 2)
        disk.crash("all")
        assert open_log(disk).end_offset == 2

    async def test_a_truncation_during_a_sync_withdraws_its_promise(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        log = log_of(1, 1, 1, disk=disk)
        answers = []

        async def sync() -> None:
            answers.append(await log.sync())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            log.truncate_to(2)
            # Appending blocks for the truncation; so only what is appended after that is unsynced.
            log.append_as_leader(batch(b"x", b"y", b"z"), 2)
            assert log.synced_end_offset == 2
        assert answers == [2]
        assert (log.end_offset, log.synced_end_offset) == (5, 2)
        disk.crash("all")
        assert open_log(disk).end_offset == 2

    async def test_a_truncation_takes_back_what_was_synced(self) -> None:
        log = log_of(1, 1)
        await log.sync()
        log.truncate_to(2)
        assert log.synced_end_offset == 2
        log.append_as_leader(batch(b"x", b"y"), 2)
        assert log.synced_end_offset == 2

    async def test_two_syncs_that_end_in_either_order_leave_the_later_end(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        latencies = [5.0, 1.0, 0.0]  # the last of the recovery point
        log = log_of(1, disk=SimulatedDisk(sync_latency=lambda: latencies.pop(0)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.sync)
            await trio.testing.wait_all_tasks_blocked()
            log.append_as_leader(batch(b"x"), 1)
            await log.sync()
            assert log.synced_end_offset == 3
        assert log.synced_end_offset == 3

    async def test_a_cancelled_sync_waits_counts_and_then_is_cancelled(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        log = log_of(1, disk=SimulatedDisk(sync_latency=lambda: 4.0))
        with trio.move_on_after(1) as scope:
            await log.sync()
        assert scope.cancelled_caught
        assert (trio.current_time(), log.synced_end_offset) == (4.0, 2)

    async def test_nothing_to_sync_is_a_checkpoint_and_no_fsync(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        await log.sync()
        calls: list[str] = []
        disk.hook = lambda operation, _path: calls.append(operation)
        with trio.testing.assert_checkpoints():
            assert await log.sync() == 2
        assert calls == []

    async def test_a_truncation_alone_is_made_durable_by_a_sync(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, 1, disk=disk)
        await log.sync()
        log.truncate_to(2)
        await log.sync()
        disk.crash("all")
        assert open_log(disk).end_offset == 2

    async def test_a_sync_begun_before_a_truncation_vouches_for_nothing(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        log = log_of(1, 1, disk=disk)
        await log.sync()
        log.append_as_leader(batch(b"x"), 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.sync)
            await trio.testing.wait_all_tasks_blocked()
            log.truncate_to(2)
        await log.sync()
        disk.crash("all")
        assert open_log(disk).end_offset == 2

    async def test_truncated_records_never_come_back_behind_new_ones(self) -> None:
        for seed in range(40):
            disk = SimulatedDisk()
            disk.random.seed(seed)
            log = log_of(1, 1, 1, disk=disk)
            await log.sync()
            log.truncate_to(2)
            log.append_as_leader(batch(b"new"), 2)
            disk.crash()
            reopened = open_log(disk)
            assert values_in(reopened) in ([b"0@1", b"1@1"], [b"0@1", b"1@1", b"new"])


class TestPoison:
    @pytest.mark.parametrize("operation", ["append", "sync"])
    async def test_the_first_failure_is_for_ever(self, operation: str) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        await log.sync()
        log.append_as_leader(batch(b"x"), 1)
        disk.fail(operation, name=".log", code=errno.EIO)

        async def use() -> None:
            if operation == "append":
                log.append_as_leader(batch(b"y"), 1)
            await log.sync()

        with pytest.raises(StorageFailure, match="injected"):
            await use()
        assert isinstance(log.poisoned, OSError)
        assert (log.end_offset, log.synced_end_offset) == (3, 2)
        for _ in range(2):
            with pytest.raises(StorageFailure, match="injected"):
                await log.sync()
            with pytest.raises(StorageFailure, match="injected"):
                log.append_as_leader(batch(b"z"), 1)
            with pytest.raises(StorageFailure, match="injected"):
                log.append_as_follower(at(batch(b"z"), 3, 1))
            with pytest.raises(StorageFailure, match="injected"):
                log.truncate_to(2)
        assert (log.end_offset, log.synced_end_offset) == (3, 2)
        await log.close()

    async def test_a_truncation_that_fails_poisons(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, 1, disk=disk)
        disk.fail("truncate")
        with pytest.raises(StorageFailure):
            log.truncate_to(2)
        with pytest.raises(StorageFailure):
            await log.sync()
        assert log.synced_end_offset <= 2

    async def test_a_sync_that_succeeds_after_a_failed_one_counts_nothing(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        latencies = [1.0, 2.0]
        disk = SimulatedDisk(sync_latency=lambda: latencies.pop(0))
        log = log_of(1, disk=disk)
        disk.fail("sync", name=".log")
        failures = []

        async def sync() -> None:
            try:
                await log.sync()
            except StorageFailure as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(sync)
        assert len(failures) == 2
        assert log.synced_end_offset == 0

    async def test_poisoning_wakes_those_who_wait(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        disk.fail("sync", name=".log")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.changed.park)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(StorageFailure):
                await log.sync()

    async def test_a_poisoned_log_does_not_vouch_for_itself_at_close(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        disk.fail("sync", name=".log")
        with pytest.raises(StorageFailure):
            await log.sync()
        await log.close()
        assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")]

    async def test_bytes_lost_by_a_failed_sync_are_not_durable_next_time(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        await log.sync()
        log.append_as_leader(batch(b"lost"), 1)
        disk.fail("sync", name=".log")
        with pytest.raises(StorageFailure):
            await log.sync()
        disk.kill()
        reopened = open_log(disk)
        assert (reopened.end_offset, reopened.synced_end_offset) == (2, 2)

    async def test_a_read_that_fails_says_so_and_poisons_nothing(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, 1, disk=disk)
        disk.fail("read_at")
        assert log.read(2, 1000), "what was appended last is in memory"
        with pytest.raises(StorageFailure, match="cannot read the log"):
            log.read(0, 1000)
        assert log.poisoned is None
        assert log.read(0, 1000)

    async def test_a_closed_log_is_not_used(self) -> None:
        log = log_of(1)
        await log.close()
        await log.close()
        with pytest.raises(NodeClosedError):
            log.append_as_leader(batch(b"x"), 1)
        with pytest.raises(NodeClosedError):
            await log.sync()
        with pytest.raises(NodeClosedError):
            log.read(0, 1000)
        with pytest.raises(NodeClosedError):
            await log.offset_for_timestamp(0)

    async def test_bytes_appended_while_closing_are_synced_first(self, autojump_clock: trio.testing.MockClock) -> None:
        disk = SimulatedDisk(sync_latency=lambda: 1.0)
        log = log_of(1, disk=disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.close)
            await trio.testing.wait_all_tasks_blocked()
            log.append_as_leader(batch(b"late"), 1)
        disk.crash("all")
        assert open_log(disk).end_offset == 3
