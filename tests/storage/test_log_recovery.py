"""Opening a log after something went wrong: a torn tail is cut, damage is refused and named (scenario S13)."""

from __future__ import annotations

import errno
import itertools
import random
from uuid import UUID

import pytest
import structlog.testing

from kraft_trio.errors import CorruptLogError, StorageError, StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, patch_base_offset_and_epoch
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES
from kraft_trio.storage.segments.recovery_point import RecoveryRecord, encode_recovery_point
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    KAFKAS_VOTERS,
    RECOVERY_POINT,
    STATIC_VOTERS,
    batch,
    follows,
    open_log,
    rewrite,
    stopped_disk,
    values_in,
)


class TestTornTail:
    @pytest.mark.parametrize(
        ("kept", "preallocated"),
        [(72, 0), *itertools.product([8, 12, 16, 17, 30, 60, 61, 65, 71], [0, 1, 5000])],
    )
    def test_a_last_batch_that_is_cut_is_dropped(self, kept: int, preallocated: int) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three", synced=2)

        def cut(data: bytearray) -> None:
            data[positions[2] + kept :] = bytes(preallocated)

        rewrite(disk, cut)
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

    @pytest.mark.parametrize("count", [1, 10_000, MAX_PREALLOCATE_BYTES])
    def test_zeros_behind_the_last_batch_are_dropped(self, count: int) -> None:
        """They were preallocated, or are the begin of an offset; nothing that anybody wrote is lost."""
        disk, positions = stopped_disk(b"one", b"two")
        rewrite(disk, lambda data: data.extend(bytes(count)))
        again = disk.copy()
        with structlog.testing.capture_logs() as logs:
            open_log(disk, preallocate_bytes=1)
        assert [(entry["event"], entry["size_in_bytes"]) for entry in logs] == [("preallocated zeros cut", count)]
        with structlog.testing.capture_logs() as logs:
            open_log(again)
        assert [entry["event"] for entry in logs] == ["torn tail cut"], "this node preallocates nothing"
        disk.kill()
        rewrite(disk, lambda data: data.extend(bytes(MAX_PREALLOCATE_BYTES + 1)))
        with structlog.testing.capture_logs() as logs:
            open_log(disk, preallocate_bytes=1)
        assert [entry["event"] for entry in logs] == ["torn tail cut"], "so many no node preallocates"
        assert len(disk.durable_bytes(FIRST_SEGMENT) or b"") == positions[-1] + len(batch(b"two"))
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

    def test_a_torn_batch_with_a_batch_in_a_value_is_a_torn_tail(self) -> None:
        disk, _ = stopped_disk(b"one", b"two")
        inner = batch(b"inner")
        torn = follows(b"", encode_batch([NewRecord(inner), NewRecord(b"x" * 100)], timestamp_ms=0), 2, 1)[:-50]
        rewrite(disk, lambda data: data.extend(torn))
        assert values_in(open_log(disk)) == [b"one", b"two"]

    def test_an_older_epochs_batch_behind_a_torn_one_is_a_leftover(self) -> None:
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


class TestDamage:
    @pytest.mark.parametrize("at", [0, 5, 8, 11, 12, 16, 17, 21, 24, 30, 45, 60, 61, 65, 70])
    def test_a_flipped_bit_before_valid_batches_is_refused_and_named(self, at: int) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three")
        disk.damage(FIRST_SEGMENT, positions[1] + at, 0x40)
        before = disk.read_bytes(FIRST_SEGMENT)
        # The leader epoch is not under the CRC: a higher one is noticed where the next batch falls below it.
        noticed = positions[2] if at == 12 else positions[1]
        with pytest.raises(CorruptLogError, match=f"{FIRST_SEGMENT}: position {noticed}: .*not a torn tail"):
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
    def test_a_last_batch_with_a_valid_crc_is_not_a_torn_tail(self, position: int, byte: int) -> None:
        disk, positions = stopped_disk(b"one", b"two")
        disk.remove(RECOVERY_POINT)

        def change(data: bytearray) -> None:
            data[positions[1] + position] = byte

        rewrite(disk, change)
        with pytest.raises(
            CorruptLogError, match=f"position {positions[1]}: .*correct CRC is at position {positions[1]}"
        ):
            open_log(disk)

    def test_a_missing_batch_in_the_middle_is_refused(self) -> None:
        disk, positions = stopped_disk(b"one", b"two", b"three")
        rewrite(disk, lambda data: data.__delitem__(slice(positions[1], positions[2])))
        with pytest.raises(CorruptLogError, match=f"position {positions[1]}: .*expected base offset 1"):
            open_log(disk)

    def test_an_epoch_that_falls_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one")
        disk.replace_now(RECOVERY_POINT, encode_recovery_point(RecoveryRecord(3)))
        data = follows(follows(disk.read_bytes(FIRST_SEGMENT), batch(b"two"), 1, 5), batch(b"three"), 2, 4)
        disk.replace_now(FIRST_SEGMENT, data)
        with pytest.raises(CorruptLogError, match="leader epoch 4 at offset 2 after epoch 5"):
            open_log(disk)

    @pytest.mark.parametrize("byte", [11, 23, 26], ids=["length", "offset delta, high", "offset delta, low"])
    @pytest.mark.parametrize("segment_bytes", [1 << 30, 140], ids=["one segment", "two batches a segment"])
    @pytest.mark.parametrize("mask", [0x01, 0x7F])
    async def test_a_damaged_header_is_named_not_the_next_batch(self, byte: int, segment_bytes: int, mask: int) -> None:
        """A clean stop made the whole log known good, so opening it trusts the headers."""
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=segment_bytes)
        for value in (b"a", b"b", b"c", b"d"):
            log.append_as_leader(batch(value), 1)
        size = log.size_in_bytes // 4
        await log.close()
        disk.damage(FIRST_SEGMENT, size + byte, mask)
        with pytest.raises(CorruptLogError, match=rf"0\.log: position {size}: ") as refused:
            open_log(disk)
        assert "offset 1: " in str(refused.value) or "are left" in str(refused.value)

    def test_any_damage_before_the_last_segment_is_refused(self) -> None:
        for cut in (1, 30, 73):
            disk, _ = stopped_disk(b"one", b"two", b"three", segment_bytes=150)
            for name in disk.list_directory(DIRECTORY):
                if name.endswith(".snapshot"):
                    disk.remove(f"{DIRECTORY}/{name}")
            rewrite(disk, lambda data, cut=cut: data.__delitem__(slice(-cut, None)))  # type: ignore[misc]
            with pytest.raises(CorruptLogError, match=r"not a torn tail|its first offset is 2"):
                open_log(disk, segment_bytes=150)

    def test_a_missing_segment_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one", b"two", b"three", segment_bytes=80)
        disk.remove(f"{DIRECTORY}/{1:020d}.log")
        with pytest.raises(CorruptLogError, match=r"2\.log: its first offset is 2, expected 1, "):
            open_log(disk)

    def test_a_log_above_zero_without_a_snapshot_is_refused(self) -> None:
        disk, _ = stopped_disk(b"one", b"two", segment_bytes=80)
        disk.remove(FIRST_SEGMENT)
        with pytest.raises(CorruptLogError, match="starts at offset 1; expected a whole snapshot"):
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

    def test_a_refused_log_leaves_no_file_open_and_can_be_retried(self) -> None:
        disk, positions = stopped_disk(b"one", b"two")
        disk.damage(FIRST_SEGMENT, positions[0] + 65)
        with pytest.raises(CorruptLogError):
            open_log(disk)
        disk.damage(FIRST_SEGMENT, positions[0] + 65)
        assert values_in(open_log(disk)) == [b"one", b"two"]


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

    @pytest.mark.parametrize(
        "content",
        [
            None,
            b"",
            b"0\n0\n",
            b"0\n1\n1 0\n",
            b"0\n3\n1 0\n3 1\n4 2\n",
            b"0\n2\n1 0\n2 1\n",
            b"0\n2\n1 0\n3 ",
            b"7\n0\n",
            b"\xff\x00",
        ],
        ids=["missing", "empty", "no epochs", "behind", "ahead", "another", "cut", "version", "garbage"],
    )
    async def test_leader_epochs_follow_the_log_whatever_the_file_says(self, content: bytes | None) -> None:
        """It is neither believed nor a reason to refuse: a truncation leaves it ahead, a crash behind."""
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"a"), 1)
        log.append_as_leader(batch(b"b"), 3)
        await log.close()
        path = f"{DIRECTORY}/leader-epoch-checkpoint"
        expected = b"0\n2\n1 0\n3 1\n"
        assert disk.read_bytes(path) == expected
        if content is None:
            disk.remove(path)
        else:
            disk.replace_now(path, content)
        log = open_log(disk)
        assert list(log.epochs) == [(1, 0), (3, 1)]
        assert log.end == OffsetAndEpoch(2, 3)
        assert disk.read_bytes(path) == expected

    def test_leftovers_are_removed_and_nothing_else(self) -> None:
        disk, _ = stopped_disk(b"one")
        leftovers = [
            "00000000000000000005-0000000001-123.checkpoint.part",
            "00000000000000000005-0000000001.checkpoint.deleted",
            "00000000000000000005-0000000001.checkpoint.part",
            "00000000000000000000.log.deleted",
            "00000000000000000000.snapshot.deleted",
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
        with pytest.raises(StorageError, match=r"metadata: topic_id AAAAAAAAAAAAAAAAAAAAAQ, expected"):
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
            (b"", "empty, expected version: 0 and topic_id; remove it, and the next start writes it"),
            (bytes(43), "43 zero bytes, expected version: 0 and topic_id; remove it"),
            (b"version: " + bytes(43), "version 43 zero bytes, expected 0"),
            (b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version '', expected 0"),
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

    def test_a_killed_process_unsynced_bytes_are_durable_once_opened(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one"), 1)
        disk.kill()
        assert open_log(disk).synced_end_offset == 1
        disk.crash("all")
        assert values_in(open_log(disk)) == [b"one"]
