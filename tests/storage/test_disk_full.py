"""A disk without room: nothing that was there is in doubt, and the reserve lets the node end in order."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest

from kraft_trio.errors import DiskFullError, StorageFailure
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.disk_reserve import DISK_RESERVE, RESERVE_BYTES, DiskReserve
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.segments.recovery_point import RecoveryRecord, decode_recovery_point
from tests.storage.support import DIRECTORY, STATIC_VOTERS, TOPIC_ID, batch, open_log, values_in

PATH = f"{DIRECTORY}/quorum-state"


def disk_with_reserve() -> tuple[SimulatedDisk, DiskReserve]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return disk, DiskReserve(disk, DIRECTORY)


def open_with(
    disk: SimulatedDisk, reserve: DiskReserve | None, segment_bytes: int = 1 << 30, preallocate_bytes: int = 0
) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        topic_id=TOPIC_ID,
        static_voters=STATIC_VOTERS,
        config=LogConfig(segment_bytes=segment_bytes, preallocate_bytes=preallocate_bytes),
        now_ms=lambda: 0,
        reserve=reserve,
    )


def leave_room(disk: SimulatedDisk, room_bytes: int) -> None:
    disk.capacity = 1 << 62
    room = disk.room()
    assert room is not None
    disk.capacity += room_bytes - room


def fill(log: Log) -> list[bytes | None]:
    """Append values until there is no room; those that were appended."""
    for number in range(100):
        try:
            log.append_as_leader(batch(b"%d" % number), leader_epoch=number // 3)
        except DiskFullError:
            return [b"%d" % appended for appended in range(number)]
    pytest.fail("the disk is not full")


class TestTheLog:
    async def test_what_does_not_fit_is_not_in_it_and_all_else_is(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve)
        log.append_as_leader(batch(b"kept"), 1)
        leave_room(disk, 10)
        size = log.size_in_bytes
        message = r"00000\.log: [0-9]+ bytes cannot be appended: .*free space"
        with pytest.raises(DiskFullError, match=message) as refused:
            log.append_as_leader(batch(b"lost"), 1)
        assert (log.end_offset, log.size_in_bytes, values_in(log)) == (1, size, [b"kept"])
        assert len(disk.peek(f"{DIRECTORY}/00000000000000000000.log") or b"") == size, "the part written is cut off"
        assert reserve.shortage is refused.value
        assert log.poisoned is None
        assert await log.sync() == 1
        await log.close()
        disk.crash("all")
        log = open_log(disk)
        assert values_in(log) == [b"kept"]

    async def test_nothing_more_is_appended_even_if_there_is_room_again(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve)
        leave_room(disk, 0)
        with pytest.raises(DiskFullError):
            log.append_as_leader(batch(b"lost"), 1)
        disk.capacity = None
        with pytest.raises(DiskFullError):
            log.append_as_leader(batch(b"lost"), 1)
        assert log.end_offset == 0

    async def test_of_several_batches_none_is_left_behind(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve)
        log.append_as_leader(batch(b"kept"), 1)
        leave_room(disk, len(batch(b"first")) + 1)
        with pytest.raises(DiskFullError):
            log.append_as_leader(batch(b"first") + batch(b"second"), 1)
        await log.close()
        assert values_in(open_log(disk)) == [b"kept"]

    @pytest.mark.parametrize("preallocate_bytes", [0, 128])
    @pytest.mark.parametrize("with_reserve", [True, False])
    async def test_wherever_the_disk_fills_appends_survive_the_next_open(
        self, with_reserve: bool, preallocate_bytes: int
    ) -> None:
        """Every number of bytes of room: batches, new segments, their indexes, epochs, the notes of a clean end."""
        ends = []
        for room in range(0, 1500, 7):
            disk, reserve = disk_with_reserve()
            log = open_with(disk, reserve if with_reserve else None, 200, preallocate_bytes)
            leave_room(disk, room)
            appended = fill(log)
            assert await log.sync() == len(appended)
            await log.close()
            disk.crash("all")
            disk.capacity = None
            reopened = open_log(disk)
            assert values_in(reopened) == appended, f"room for {room} bytes"
            ends.append(len(appended))
        if not preallocate_bytes:  # Zeros in one segment may leave too little room for the next.
            assert all(earlier <= later for earlier, later in pairwise(ends))
        assert ends[0] == 0
        assert ends[-1] > 6

    async def test_an_fsync_without_room_poisons_as_any_failed_one(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve)
        log.append_as_leader(batch(b"lost"), 1)
        disk.fail("sync", code=errno.ENOSPC)
        with pytest.raises(DiskFullError, match="the log cannot be trusted any more"):
            await log.sync()
        assert log.poisoned is not None
        with pytest.raises(StorageFailure):
            await log.sync()
        with pytest.raises(StorageFailure):
            log.append_as_leader(batch(b"more"), 1)

    async def test_a_roll_whose_fsync_finds_no_room_poisons_too(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve, segment_bytes=100)
        log.append_as_leader(batch(b"lost"), 1)
        disk.fail("sync", code=errno.ENOSPC)
        with pytest.raises(DiskFullError):
            log.append_as_leader(batch(b"more"), 1)
        assert log.poisoned is not None
        assert reserve.shortage is None, "such a node says nothing more"

    async def test_a_roll_without_room_for_its_name_leaves_no_segment(self) -> None:
        """Else, once the log is cut below its first offset, the next start would refuse it."""
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve, segment_bytes=150)
        for number in range(2):
            log.append_as_leader(batch(b"%d" % number), 1)
        disk.fail("sync_directory", code=errno.ENOSPC)
        with pytest.raises(DiskFullError):
            log.append_as_leader(batch(b"2"), 1)
        assert log.poisoned is None
        log.truncate_to(1)
        await log.close()
        assert values_in(open_log(disk)) == [b"0"]

    @pytest.mark.parametrize("with_reserve", [True, False])
    async def test_a_recovery_point_without_room_may_lag(self, with_reserve: bool) -> None:
        """To write over a block takes another one where the file system copies on write."""
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve if with_reserve else None)
        disk.fail("overwrite", name="recovery-point", code=errno.ENOSPC)
        log.append_as_leader(batch(b"kept"), 1)
        assert await log.sync() == 1
        assert log.poisoned is None
        assert (reserve.shortage is not None) == with_reserve
        with pytest.raises(DiskFullError, match=r"the recovery point cannot be written: .*free space"):
            log.append_as_leader(batch(b"lost"), 1)
        log.advance_high_watermark(1)
        written = disk.peek(f"{DIRECTORY}/recovery-point") or b""
        assert decode_recovery_point(written) == RecoveryRecord(1, 1), "with room again, it tells all"
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"kept"]

    async def test_it_may_lag_at_the_close_too(self) -> None:
        disk, reserve = disk_with_reserve()
        log = open_with(disk, reserve)
        log.append_as_leader(batch(b"kept"), 1)
        await log.sync()
        log.advance_high_watermark(1)
        disk.fail("overwrite", name="recovery-point", code=errno.ENOSPC)
        await log.close()
        assert not disk.has_faults
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"kept"]

    def test_a_log_that_cannot_be_opened_for_want_of_room(self) -> None:
        disk = SimulatedDisk()
        disk.capacity = 0
        with pytest.raises(DiskFullError, match=f"{DIRECTORY}: cannot open the log.*free space"):
            open_with(disk, None)


class TestTheReserve:
    def test_its_blocks_are_its_own_until_it_is_released(self) -> None:
        disk, reserve = disk_with_reserve()
        leave_room(disk, 0)
        shortage = DiskFullError("full")
        assert reserve.release(shortage)
        assert not reserve.release(DiskFullError("again")), "there is one reserve"
        assert reserve.shortage is shortage
        assert disk.room() == RESERVE_BYTES

    def test_without_room_for_it_there_is_none_and_nothing_is_left(self) -> None:
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        disk.capacity = RESERVE_BYTES - 1
        with pytest.raises(DiskFullError, match=f"{DISK_RESERVE}: cannot reserve {RESERVE_BYTES} bytes"):
            DiskReserve(disk, DIRECTORY)
        assert disk.peek_names(DIRECTORY) == []
        disk.capacity = None
        DiskReserve(disk, DIRECTORY)
        assert disk.peek_names(DIRECTORY) == [DISK_RESERVE]

    def test_the_one_that_is_there_is_taken_also_on_a_full_disk(self) -> None:
        disk, _ = disk_with_reserve()
        leave_room(disk, 0)
        assert DiskReserve(disk, DIRECTORY).release(DiskFullError("full"))
        assert disk.room() == RESERVE_BYTES

    def test_on_a_real_disk_it_takes_its_blocks(self, tmp_path: Path) -> None:
        disk = RealDisk()
        reserve = DiskReserve(disk, str(tmp_path))
        taken = (tmp_path / DISK_RESERVE).stat()
        assert taken.st_size == RESERVE_BYTES
        assert taken.st_blocks * 512 >= RESERVE_BYTES
        reserve.release(DiskFullError("full"))
        assert list(tmp_path.iterdir()) == []


class TestQuorumState:
    async def test_a_vote_is_stored_on_a_full_disk_once(self) -> None:
        disk, reserve = disk_with_reserve()
        file = QuorumStateFile(disk, PATH, reserve)
        await file.write(ElectionState(1), 1, VoterSet())
        leave_room(disk, 20)
        await file.write(ElectionState(2), 1, VoterSet())
        assert reserve.shortage is not None
        assert PATH in str(reserve.shortage)
        disk.crash("all")
        assert file.read() == ElectionState(2)

    async def test_without_room_even_then_it_fails_and_the_old_one_stays(self) -> None:
        disk, reserve = disk_with_reserve()
        file = QuorumStateFile(disk, PATH, reserve)
        await file.write(ElectionState(1), 1, VoterSet())
        leave_room(disk, 0)
        reserve.release(DiskFullError("full"))
        leave_room(disk, 20)
        with pytest.raises(DiskFullError, match=f"{PATH}: cannot be written"):
            await file.write(ElectionState(2), 1, VoterSet())
        assert file.read() == ElectionState(1)

    async def test_another_failure_is_not_tried_again(self) -> None:
        disk, reserve = disk_with_reserve()
        disk.fail("append", name="quorum-state.tmp", code=errno.EIO)
        with pytest.raises(StorageFailure) as failed:
            await QuorumStateFile(disk, PATH, reserve).write(ElectionState(1), 1, VoterSet())
        assert not isinstance(failed.value, DiskFullError)
        assert reserve.shortage is None
