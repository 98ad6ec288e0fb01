"""Opening a log after something went wrong: a torn tail is cut, damage is refused and named (scenario S13)."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from uuid import UUID

import pytest
import structlog.testing

from kraft_trio.errors import CorruptLogError, StorageError, StorageFailure
from kraft_trio.protocol.control_records import VotersRecord
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batch import NewRecord, encode_batch, encode_control_batch, patch_base_offset_and_epoch
from kraft_trio.storage.disk import SECTOR_BYTES
from kraft_trio.storage.log import Log, LogConfig
from kraft_trio.storage.log_append import plan_leader_append
from kraft_trio.storage.recovery_point import decode_recovery_point, encode_recovery_point
from kraft_trio.storage.simulated_disk import SimulatedDisk
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    KAFKAS_VOTERS,
    STATIC_VOTERS,
    batch,
    open_log,
    values_in,
)

RECOVERY_POINT = f"{DIRECTORY}/recovery-point"


def stopped_disk(
    *values: bytes, segment_bytes: int = 1 << 30, synced: int | None = None
) -> tuple[SimulatedDisk, list[int]]:
    """A disk whose process was killed after it had appended one batch for each value; where the batches begin.

    The log had synced as many of them as `synced` says, None: all.
    """
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=segment_bytes)
    positions = []
    for count, value in enumerate(values):
        if count == synced:
            log._sync_now()
        positions.append(log.size_in_bytes)
        log.append_as_leader(batch(value), 1)
    if synced is None:
        log._sync_now()
    disk.kill()
    return disk, positions


def rewrite(disk: SimulatedDisk, change: Callable[[bytearray], object], path: str = FIRST_SEGMENT) -> None:
    data = bytearray(disk.read_bytes(path))
    change(data)
    disk.replace_now(path, bytes(data))


def follows(log_bytes: bytes, encoded: bytes, offset: int, epoch: int) -> bytes:
    buffer = bytearray(encoded)
    plan_leader_append(buffer, offset, epoch, 1 << 20)
    return log_bytes + buffer


class TestTornTail:
    @pytest.mark.parametrize("kept", [1, 8, 12, 16, 17, 30, 60, 61, 65, 72])
    def test_a_last_batch_that_is_cut_is_dropped(self, kept: int) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)
        rewrite(disk, lambda data: data.__delitem__(slice(positions[2] + kept, None)))
        with structlog.testing.capture_logs() as logs:
            log = open_log(disk)
        assert values_in(log) == [b"one", b"two"]
        assert (log.end, log.synced_end_offset, log.size_in_bytes) == (OffsetAndEpoch(2, 1), 2, positions[2])
        (entry,) = [entry for entry in logs if entry["event"] == "torn tail cut"]
        assert (entry["file"], entry["position"], entry["end_offset"]) == (FIRST_SEGMENT, positions[2], 2)

    @pytest.mark.parametrize("zeroed_from", [0, 4, 8, 16, 20, 40, 61, 70])
    def test_a_last_batch_of_which_the_rest_is_zeros_is_dropped(self, zeroed_from: int) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)

        def zero(data: bytearray) -> None:
            start = positions[2] + zeroed_from
            data[start:] = bytes(len(data) - start)

        rewrite(disk, zero)
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_zeros_behind_the_last_batch_are_dropped(self) -> None:
        disk, _ = stopped_disk(b"one", b"two")
        rewrite(disk, lambda data: data.extend(bytes(10_000)))
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_garbage_behind_the_last_batch_is_dropped(self) -> None:
        disk, _ = stopped_disk(b"one", b"two")
        garbage = random.Random(1).randbytes(20_000)
        rewrite(disk, lambda data: data.extend(garbage))
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_the_cut_is_durable_and_the_log_goes_on_there(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", synced=1)
        rewrite(disk, lambda data: data.__delitem__(slice(positions[1] + 20, None)))
        log = open_log(disk)
        disk.crash("all")
        assert len(disk.read_bytes(FIRST_SEGMENT)) == positions[1]
        log = open_log(disk)
        log.append_as_leader(batch(b"new"), 2)
        assert values_in(log) == [b"one", b"new"]

    def test_a_torn_batch_that_holds_a_batch_in_a_value_is_a_torn_tail_all_the_same(self) -> None:
        disk, _ = stopped_disk(b"one", b"two")
        inner = batch(b"inner")
        torn = follows(b"", encode_batch([NewRecord(inner), NewRecord(b"x" * 100)], timestamp_ms=0), 2, 1)[:-50]
        rewrite(disk, lambda data: data.extend(torn))
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_an_older_epochs_batch_behind_a_torn_one_is_left_from_a_log_that_was_truncated(self) -> None:
        disk, _ = stopped_disk(b"one")
        data = follows(disk.read_bytes(FIRST_SEGMENT), batch(b"two"), 1, 5)
        torn = follows(b"", batch(b"x" * 200), 2, 5)[:100]
        old = follows(b"", batch(b"old"), 4, 3)
        disk.replace_now(FIRST_SEGMENT, data + torn + old)
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_a_log_of_one_torn_batch_is_empty(self) -> None:
        disk, _ = stopped_disk(b"one", synced=0)
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert open_log(disk).end == OffsetAndEpoch(0, 0)

    def test_voters_of_a_torn_batch_are_not_in_force(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(encode_control_batch([VotersRecord(KAFKAS_VOTERS)], timestamp_ms=0), 1)
        disk.kill()
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert open_log(disk).voters.voters == STATIC_VOTERS


class TestRecoveryPoint:
    """Below it damage is damage, from it on the log is cut at the first thing that is wrong."""

    def test_it_is_told_with_each_sync_and_each_truncation(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(0)
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(0)
        log._sync_now()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(3)
        log.truncate_to(1)
        # Before the log goes back, and whatever the disk loses.
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(1)
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one", b"two", b"three"]

    async def test_it_is_told_with_each_sync_off_the_event_loop(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        await log.sync()
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(1)

    def test_a_crash_after_a_truncation_was_synced_finds_no_end_missing(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch(value), 1)
            log._sync_now()
        log._recovery_point._file.sync_now()
        log.truncate_to(1)
        log._sync_now()
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one"]

    @pytest.mark.parametrize("sector", range(1, 9))
    def test_a_hole_behind_it_is_cut_with_the_whole_batches_that_follow(self, sector: int) -> None:
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
            log._sync_now()
            disk.crash("all")
            assert disk.peek(RECOVERY_POINT) == encode_recovery_point(0)
            disk.damage(FIRST_SEGMENT, position + at, 0x40)
            with pytest.raises(CorruptLogError, match=f"position {position}: .*so this is no torn tail"):
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
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(2)
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
        assert disk.peek(RECOVERY_POINT) == encode_recovery_point(1)

    async def test_a_log_that_cannot_write_it_is_poisoned(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        disk.fail("overwrite", name="recovery-point")
        with pytest.raises(StorageFailure, match="injected: EIO"):
            await log.sync()
        assert log.poisoned is not None
        assert log.synced_end_offset == 0

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"0\n",
            encode_recovery_point(2)[:-1],
            encode_recovery_point(2)[:10] + bytes(22),
            encode_recovery_point(2).replace(b"2\n", b"1\n", 1),
            encode_recovery_point(2) + b"0",
            None,
        ],
    )
    def test_without_one_only_what_can_be_nothing_else_is_a_torn_tail(self, content: bytes | None) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)
        disk.remove(RECOVERY_POINT)
        if content is not None:
            disk.replace_now(RECOVERY_POINT, content)
        with structlog.testing.capture_logs() as logs:
            assert values_in(open_log(disk)) == [b"one", b"two", b"three"]
        assert ("recovery point ignored" in [entry["event"] for entry in logs]) is (content is not None)
        assert disk.durable_bytes(RECOVERY_POINT) == encode_recovery_point(3)
        disk.kill()
        disk.remove(RECOVERY_POINT)
        rewrite(disk, lambda data: data.__delitem__(slice(-1, None)))
        assert values_in(open_log(disk)) == [b"one", b"two"]
        disk.kill()
        disk.remove(RECOVERY_POINT)
        disk.damage(FIRST_SEGMENT, positions[0] + 30)
        with pytest.raises(CorruptLogError, match=f"right CRC is at position {positions[1]}"):
            open_log(disk)

    @pytest.mark.parametrize("offset", [0, 1, 12345, 2**63 - 1])
    def test_its_record_has_one_length_and_says_what_it_was_given(self, offset: int) -> None:
        record = encode_recovery_point(offset)
        assert len(record) == 32
        assert decode_recovery_point(record) == offset
        for at in range(len(record)):
            damaged = bytearray(record)
            damaged[at] ^= 1
            assert decode_recovery_point(bytes(damaged)) is None


class TestDamage:
    @pytest.mark.parametrize("at", [0, 5, 8, 11, 12, 16, 17, 21, 24, 30, 45, 60, 61, 65, 70])
    def test_a_flipped_bit_with_valid_batches_after_it_is_refused_and_named(self, at: int) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three")
        disk.damage(FIRST_SEGMENT, positions[1] + at, 0x40)
        before = disk.read_bytes(FIRST_SEGMENT)
        # The leader epoch is not under the CRC: a higher one is noticed where the next batch falls below it.
        noticed = positions[2] if at == 12 else positions[1]
        with pytest.raises(CorruptLogError, match=f"{FIRST_SEGMENT}: position {noticed}: .*no torn tail"):
            open_log(disk)
        assert disk.read_bytes(FIRST_SEGMENT) == before

    @pytest.mark.parametrize("at", range(0, 71, 2))
    def test_every_bit_of_the_first_batch_counts(self, at: int) -> None:
        for bit in range(8):
            disk, _ = stopped_disk(b"one", b"two")
            disk.damage(FIRST_SEGMENT, at, 1 << bit)
            try:
                log = open_log(disk)
            except CorruptLogError:
                continue
            # The leader epoch is not under the CRC; epoch 0 before epoch 1 is as good as any.
            assert (at, bit) == (15, 0)
            assert values_in(log) == [b"one", b"two"]

    @pytest.mark.parametrize(("position", "byte"), [(7, 9), (15, 0), (3, 1)])
    def test_a_last_batch_whose_crc_is_right_is_no_torn_tail_without_a_recovery_point(
        self, position: int, byte: int
    ) -> None:
        disk, positions = stopped_disk(b"one", b"two")
        disk.remove(RECOVERY_POINT)

        def change(data: bytearray) -> None:
            data[positions[1] + position] = byte

        rewrite(disk, change)
        with pytest.raises(
            CorruptLogError, match=f"position {positions[1]}: .*right CRC is at position {positions[1]}"
        ):
            open_log(disk)

    def test_a_missing_batch_in_the_middle_is_refused(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three")
        rewrite(disk, lambda data: data.__delitem__(slice(positions[1], positions[2])))
        with pytest.raises(CorruptLogError, match=f"position {positions[1]}: .*expected base offset 1"):
            open_log(disk)

    def test_an_epoch_that_falls_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one")
        disk.replace_now(RECOVERY_POINT, encode_recovery_point(3))
        data = follows(follows(disk.read_bytes(FIRST_SEGMENT), batch(b"two"), 1, 5), batch(b"three"), 2, 4)
        disk.replace_now(FIRST_SEGMENT, data)
        with pytest.raises(CorruptLogError, match="leader epoch 4 at offset 2 after epoch 5"):
            open_log(disk)

    def test_any_damage_before_the_last_segment_is_refused(self) -> None:
        for cut in (1, 30, 73):
            disk, _ = stopped_disk(b"one", b"two", b"three", segment_bytes=150)
            for name in disk.list_directory(DIRECTORY):
                if name.endswith(".snapshot"):
                    disk.remove(f"{DIRECTORY}/{name}")
            rewrite(disk, lambda data, cut=cut: data.__delitem__(slice(-cut, None)))  # type: ignore[misc]
            with pytest.raises(CorruptLogError, match=r"no torn tail|its first offset is 2"):
                open_log(disk, segment_bytes=150)

    def test_a_missing_segment_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one", b"two", b"three", segment_bytes=80)
        disk.remove(f"{DIRECTORY}/{1:020d}.log")
        with pytest.raises(CorruptLogError, match=r"2\.log: its first offset is 2, the segment before it ends at 1"):
            open_log(disk)

    def test_a_log_that_starts_above_zero_without_a_snapshot_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one", b"two", segment_bytes=80)
        disk.remove(FIRST_SEGMENT)
        with pytest.raises(CorruptLogError, match="starts at offset 1, and no snapshot reaches up to it"):
            open_log(disk)

    def test_a_control_record_that_cannot_be_read_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one")
        bad = encode_batch([NewRecord(key=b"\x00\x00\x00\x06", value=b"\x00\x00\x7f")], timestamp_ms=0, control=True)
        first = disk.read_bytes(FIRST_SEGMENT)
        buffer = bytearray(bad)
        patch_base_offset_and_epoch(buffer, 0, 1, 1)
        disk.replace_now(FIRST_SEGMENT, first + buffer)
        with pytest.raises(CorruptLogError, match=f"{FIRST_SEGMENT}: position {len(first)}: Voters control record"):
            open_log(disk)

    def test_a_refused_log_leaves_no_file_open_and_can_be_tried_again(self) -> None:
        disk, positions = stopped_disk(b"one", b"two")
        disk.damage(FIRST_SEGMENT, positions[0] + 65)
        with pytest.raises(CorruptLogError):
            open_log(disk)
        disk.damage(FIRST_SEGMENT, positions[0] + 65)
        assert values_in(open_log(disk)) == [b"one", b"two"]


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
        with pytest.raises(CorruptLogError, match="synced up to offset 2, so this is no torn tail"):
            open_log(disk)

    async def test_a_missing_last_batch_is_no_torn_tail_after_a_clean_close(self) -> None:
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

    async def test_a_truncated_and_rewritten_log_is_not_vouched_for_by_what_was_there_before(self) -> None:
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


class TestOtherFiles:
    async def test_derived_files_are_made_again_when_missing_or_wrong(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=6000)
        for _ in range(12):
            log.append_as_leader(batch(b"x" * 900), 1)
        await log.close()
        names = [f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"]
        before = {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in names}
        assert len(before[names[0]]) == 8
        for name in names:
            disk.replace_now(f"{DIRECTORY}/{name}", b"wrong")
        await open_log(disk, segment_bytes=6000).close()
        assert {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in names} == before
        for name in names:
            disk.remove(f"{DIRECTORY}/{name}")
        await open_log(disk, segment_bytes=6000).close()
        assert {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in names} == before

    def test_leftovers_are_removed_and_nothing_else(self) -> None:
        disk, _ = stopped_disk(b"one")
        leftovers = [
            "00000000000000000005-0000000001-123.checkpoint.part",
            "00000000000000000005-0000000001.checkpoint.deleted",
            "quorum-state.tmp",
        ]
        for name in [*leftovers, "someone-elses"]:
            disk.replace_now(f"{DIRECTORY}/{name}", b"")
        open_log(disk)
        names = disk.list_directory(DIRECTORY)
        assert not set(names) & set(leftovers)
        assert "someone-elses" in names

    def test_another_topics_directory_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one")
        with pytest.raises(StorageError, match=r"metadata: topic_id AAAAAAAAAAAAAAAAAAAAAQ, the configuration"):
            Log.open(
                disk,
                DIRECTORY,
                topic_id=UUID(int=2),
                static_voters=STATIC_VOTERS,
                config=LogConfig(),
                now_ms=lambda: 0,
            )

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "version None, expected 0"),
            (b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version '1', expected 0"),
            (b"version: 0\n", "topic_id: '' is not a UUID"),
        ],
    )
    def test_a_damaged_partition_metadata_is_refused(self, content: bytes, message: str) -> None:
        disk, _ = stopped_disk(b"one")
        disk.replace_now(f"{DIRECTORY}/partition.metadata", content)
        with pytest.raises(StorageError, match=rf"partition\.metadata: {message}"):
            open_log(disk)

    def test_a_damaged_bootstrap_checkpoint_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one")
        disk.replace_now(f"{DIRECTORY}/00000000000000000000-0000000000.checkpoint", b"damaged")
        with pytest.raises(StorageError, match=r"0-0000000000\.checkpoint: batch at position 0"):
            open_log(disk)

    @pytest.mark.parametrize("operation", ["open", "view", "sync", "list_directory", "sync_directory"])
    def test_a_disk_that_fails_at_open_is_named(self, operation: str) -> None:
        disk, _ = stopped_disk(b"one")
        disk.fail(operation, code=errno.EIO, times=2)
        with pytest.raises(StorageFailure, match=f"{DIRECTORY}: cannot open the log: .*injected"):
            open_log(disk)

    def test_unsynced_bytes_of_a_killed_process_are_durable_once_opened(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        disk.kill()
        assert open_log(disk).synced_end_offset == 1
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one"]
