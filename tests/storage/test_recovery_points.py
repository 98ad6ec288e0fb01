"""How far a log is known to have been synced, and what opening makes of that: damage before it, a torn tail behind."""

from __future__ import annotations

import pytest
import structlog.testing
from crc32c import crc32c

from kraft_trio.errors import CorruptLogError, StorageFailure
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.disk.disk import SECTOR_BYTES
from kraft_trio.storage.segments.recovery_point import RecoveryRecord, decode_recovery_point, encode_recovery_point
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    RECOVERY_POINT,
    batch,
    open_log,
    rewrite,
    stopped_disk,
    values_in,
)

OF_AN_OLDER_BUILD = b"0\n00000000000000000002\n" + b"%08x\n" % crc32c(b"0\n00000000000000000002\n")


class TestRecoveryPoint:
    """Below it damage is damage, from it on the log is cut at the first thing that is wrong."""

    def test_it_is_told_with_each_sync_and_each_truncation(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(0))
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(0))
        log._durability.sync_now()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(3))
        log.truncate_to(1)
        # Before the log goes back, and whatever the disk loses.
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1))
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one", b"two", b"three"]

    async def test_it_is_told_with_each_sync_off_the_event_loop(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1))

    def test_a_crash_after_a_synced_truncation_finds_no_end_missing(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
            log._durability.sync_now()
        log._durability.recovery_point._file.sync_now()
        log.truncate_to(1)
        log._durability.sync_now()
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one"]

    @pytest.mark.parametrize("sector", range(1, 9))
    def test_a_hole_behind_it_is_cut_with_the_batches_that_follow(self, sector: int) -> None:
        values = [b"%d" % number * 700 for number in range(6)]
        disk, positions = stopped_disk(*values, synced=1)
        data = bytearray(disk.read_bytes(FIRST_SEGMENT))
        # As a sector that never reached the device: what was synced before is in it, if anything, and then zeros.
        start = max(positions[1], sector * SECTOR_BYTES)
        end = (sector + 1) * SECTOR_BYTES
        data[start:end] = bytes(end - start)
        disk.replace_now(FIRST_SEGMENT, data)
        expected = values[: sum(position <= start for position in positions) - 1]
        assert values_in(open_log(disk)) == expected
        disk.crash("all")
        assert values_in(open_log(disk)) == expected

    def test_a_hole_that_ends_in_the_first_bytes_of_a_batch_is_cut(self) -> None:
        for shift in range(8, 13):
            # The second batch has that many bytes before a sector begins.
            first = b"x" * (2 * SECTOR_BYTES - 70 - shift)
            disk, positions = stopped_disk(first, b"two" * 20, b"three", synced=1)
            assert -positions[1] % SECTOR_BYTES == shift
            data = bytearray(disk.read_bytes(FIRST_SEGMENT))
            data[positions[1] : positions[1] + shift] = bytes(shift)
            disk.replace_now(FIRST_SEGMENT, data)
            assert values_in(open_log(disk)) == [first], shift

    @pytest.mark.parametrize("at", [0, 5, 7, 8, 11, 16, 17, 21, 30, 60, 61, 70])
    def test_a_flipped_bit_behind_it_is_no_hole(self, at: int) -> None:
        """Power was lost, the recovery point with it; what is behind it may have been promised all the same."""
        for first in (b"one", b"x" * (SECTOR_BYTES - 70 - 5)):
            disk = SimulatedDisk()
            log = open_log(disk)
            log.append_as_leader(batch(first), 1)
            position = log.size_in_bytes
            for value in (b"two", b"three", b"four"):
                log.append_as_leader(batch(value), 1)
            log._durability.sync_now()
            disk.crash("all")
            assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(0))
            disk.damage(FIRST_SEGMENT, position + at, 0x40)
            with pytest.raises(CorruptLogError, match=f"position {position}: .*so this is not a torn tail"):
                open_log(disk)

    def test_a_missing_end_before_it_is_refused(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)
        rewrite(disk, lambda data: data.__delitem__(slice(positions[1], None)))
        with pytest.raises(CorruptLogError, match="ends at offset 1, position 71, but was synced up to offset 2"):
            open_log(disk)

    def test_a_batch_cut_before_it_is_refused(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)
        rewrite(disk, lambda data: data.__delitem__(slice(positions[1] + 20, None)))
        with pytest.raises(CorruptLogError, match=f"position {positions[1]}: .*synced up to offset 2"):
            open_log(disk)

    def test_opening_makes_everything_durable_and_says_so(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", synced=1)
        open_log(disk)
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(2))
        disk.crash("all")
        disk.damage(FIRST_SEGMENT, positions[1] + 30)
        with pytest.raises(CorruptLogError, match="synced up to offset 2"):
            open_log(disk)

    async def test_a_clean_close_needs_none(self) -> None:
        disk, _ = stopped_disk(b"one", b"two")
        log = open_log(disk)
        await log.close()
        assert disk.peek(RECOVERY_POINT) is None

    async def test_a_poisoned_log_leaves_it_where_it_was(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        log.append_as_leader(batch(b"two"), 1)
        disk.fail("sync", name=".log")
        with pytest.raises(StorageFailure):
            await log.sync()
        await log.close()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1))

    async def test_a_log_that_cannot_write_it_is_poisoned(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        disk.fail("overwrite", name="recovery-point")
        with pytest.raises(StorageFailure, match="injected: EIO"):
            await log.sync()
        assert log.poisoned is not None
        assert log.synced_end_offset == 0

    async def test_it_waits_for_what_is_more_urgent(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        with log.committed_news.held():
            await log.sync()
            log.advance_high_watermark(1)
            assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(0))
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1, 1))

    async def test_a_log_that_cannot_write_it_later_is_poisoned(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        disk.fail("overwrite", name="recovery-point")
        with log.committed_news.held():
            assert await log.sync() == 1
        with pytest.raises(StorageFailure, match="injected: EIO"):
            log.append_as_leader(batch(b"two"), 1)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"0\n",
            encode_recovery_point(RecoveryRecord(2))[:-1],
            encode_recovery_point(RecoveryRecord(2))[:10] + bytes(43),
            encode_recovery_point(RecoveryRecord(2)).replace(b"2\n", b"1\n", 1),
            encode_recovery_point(RecoveryRecord(2)) + b"0",
            None,
        ],
    )
    def test_without_one_only_an_unmistakable_torn_tail_is_one(self, content: bytes | None) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)
        disk.remove(RECOVERY_POINT)
        if content is not None:
            disk.replace_now(RECOVERY_POINT, content)
        with structlog.testing.capture_logs() as logs:
            assert values_in(open_log(disk)) == [b"one", b"two", b"three"]
        assert ("recovery point ignored" in [entry["event"] for entry in logs]) is (content is not None)
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(3))
        disk.kill()
        disk.remove(RECOVERY_POINT)
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert values_in(open_log(disk)) == [b"one", b"two"]
        disk.kill()
        disk.remove(RECOVERY_POINT)
        disk.damage(FIRST_SEGMENT, positions[0] + 30)
        with pytest.raises(CorruptLogError, match=f"correct CRC is at position {positions[1]}"):
            open_log(disk)

    @pytest.mark.parametrize("offset", [None, 0, 1, 12345, 2**63 - 1])
    @pytest.mark.parametrize("high_watermark", [None, 0, 7])
    def test_its_record_has_one_length_and_says_what_it_was_given(
        self, offset: int | None, high_watermark: int | None
    ) -> None:
        record = encode_recovery_point(RecoveryRecord(offset, high_watermark))
        assert len(record) == 53
        assert decode_recovery_point(record) == RecoveryRecord(offset, high_watermark)
        for at in range(len(record)):
            damaged = bytearray(record)
            damaged[at] ^= 1
            assert decode_recovery_point(bytes(damaged)) is None

    def test_one_of_an_older_build_has_no_high_watermark(self) -> None:
        disk, _ = stopped_disk(b"one", b"two", synced=2)
        disk.replace_now(RECOVERY_POINT, OF_AN_OLDER_BUILD)
        log = open_log(disk)
        assert log.once_committed == 0
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(2))


class TestHighWatermark:
    """What was known to be committed is still known to the next process."""

    async def test_it_is_known_after_a_stop_and_after_a_kill(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        assert log.once_committed == 0
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
        await log.sync()
        log.advance_high_watermark(2)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(3)), "later records follow"
        log.advance_high_watermark(3)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(3, 3)), "nothing may follow soon"
        disk.kill()
        log = open_log(disk)
        assert (log.once_committed, log.high_watermark) == (3, None)
        log.append_as_leader(batch(b"four"), 2)
        await log.sync()
        await log.close()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(None, 3))
        assert open_log(disk).once_committed == 3

    async def test_a_truncation_below_it_takes_it_back_durably(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
        await log.sync()
        log.advance_high_watermark(3)
        await log.close()
        log = open_log(disk)
        log.truncate_to(1)
        assert log.once_committed == 1
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1, 1))

    async def test_a_log_that_ends_below_it_has_lost_its_end(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        log.advance_high_watermark(1)
        await log.close()
        disk.remove(f"{DIRECTORY}/{1:020d}.snapshot")
        rewrite(disk, bytearray.clear)
        with pytest.raises(CorruptLogError, match="was synced up to offset 1: its end is missing"):
            open_log(disk)

    async def test_it_promises_nothing_that_only_others_have_synced(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        log.append_as_leader(batch(b"two"), 1)
        log.advance_high_watermark(2)  # A majority without this leader has it.
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1, 1))
        log._durability.recovery_point._file.sync_now()
        disk.crash("all")
        log = open_log(disk)
        assert (values_in(log), log.once_committed) == ([b"one"], 1)

    async def test_it_is_told_once_this_log_has_synced_it(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        log.advance_high_watermark(1)
        assert log.once_committed == 1
        await log.sync()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(RecoveryRecord(1, 1))

    async def test_a_failed_write_of_it_poisons_the_log(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        disk.fail("overwrite", name="recovery-point")
        with pytest.raises(StorageFailure, match="injected: EIO"):
            log.advance_high_watermark(1)
        assert log.poisoned is not None


class TestKnownGoodPoint:
    async def closed(self, *values: bytes) -> SimulatedDisk:
        disk = SimulatedDisk()
        log = open_log(disk)
        for value in values:
            log.append_as_leader(batch(value), 1)
        await log.close()
        return disk

    async def test_a_missing_end_is_no_torn_tail_after_a_clean_close(self) -> None:
        disk = await self.closed(b"one", b"two")
        rewrite(disk, lambda data: data.__delitem__(slice(-20, None)))
        with pytest.raises(CorruptLogError, match="synced up to offset 2, so this is not a torn tail"):
            open_log(disk)

    async def test_a_missing_last_batch_is_no_torn_tail_after_clean_close(self) -> None:
        disk = await self.closed(b"one", b"two")
        rewrite(disk, lambda data: data.__delitem__(slice(len(data) // 2, None)))
        with pytest.raises(CorruptLogError, match="ends at offset 1, position 71, but was synced up to offset 2"):
            open_log(disk)

    async def test_before_it_crcs_are_not_computed_and_after_it_they_are(self) -> None:
        disk = await self.closed(b"one", b"two")
        log = open_log(disk)
        log.append_as_leader(batch(b"three"), 1)
        log.append_as_leader(batch(b"four"), 1)
        disk.kill()
        disk.damage(FIRST_SEGMENT, 65)
        assert open_log(disk).end_offset == 4
        disk.kill()
        disk.damage(FIRST_SEGMENT, 2 * 71 + 65)
        with pytest.raises(CorruptLogError, match="position 142: the batch at offset 2 has a wrong CRC"):
            open_log(disk)

    async def test_a_torn_tail_behind_it_is_cut(self) -> None:
        disk = await self.closed(b"one", b"two")
        log = open_log(disk)
        log.append_as_leader(batch(b"three"), 1)
        disk.kill()
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert values_in(open_log(disk)) == [b"one", b"two"]

    @pytest.mark.parametrize("damage", [b"", b"\x00", b"\x00\x02" + bytes(8), b"\x00\x01" + bytes(8)])
    async def test_a_damaged_producer_snapshot_vouches_for_nothing(self, damage: bytes) -> None:
        disk = await self.closed(b"one", b"two")
        disk.replace_now(f"{DIRECTORY}/{2:020d}.snapshot", damage)
        rewrite(disk, lambda data: data.__delitem__(slice(-20, None)))
        with structlog.testing.capture_logs() as logs:
            assert values_in(open_log(disk)) == [b"one"]
        assert "producer snapshot ignored" in [entry["event"] for entry in logs]

    async def test_a_rewritten_log_is_not_vouched_for_by_the_old_one(self) -> None:
        disk = await self.closed(b"one", b"two", b"three")
        log = open_log(disk)
        log.truncate_to(1)
        log.append_as_leader(batch(b"TWO"), 2)
        log.append_as_leader(batch(b"THREE"), 2)
        disk.kill()
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert values_in(open_log(disk)) == [b"one", b"TWO"]

    async def test_only_the_newest_is_kept(self) -> None:
        disk = await self.closed(b"one")
        log = open_log(disk)
        log.append_as_leader(batch(b"two"), 1)
        await log.close()
        assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".snapshot")] == [f"{2:020d}.snapshot"]
