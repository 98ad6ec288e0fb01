"""The log: what is appended, synced, truncated and read, and what a failing disk makes of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from kraft_trio.errors import ProtocolError, RecordTooLargeError
from kraft_trio.protocol.producers import Accept, Duplicate
from kraft_trio.protocol.reconciliation import Diverging, Valid
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, iter_headers
from kraft_trio.storage.batches.control_records import KRaftVersion, LeaderChange, VotersRecord
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import Appended, LogConfig
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    KAFKAS_VOTERS,
    STATIC_VOTERS,
    TOPIC_ID,
    at,
    batch,
    log_of,
    open_log,
    values_in,
)


class TestAppendAsLeader:
    def test_batches_get_the_next_offsets_and_the_epoch(self) -> None:
        log = log_of()
        assert log.append_as_leader(batch(b"a", b"b"), 3) == Appended(0, 2)
        assert log.append_as_leader(bytearray(batch(b"c") + batch(b"d", b"e")), 5) == Appended(2, 5)
        headers = [header for header, _ in log.iter_batches(0, 5)]
        assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in headers] == [(0, 1, 3), (2, 2, 5), (3, 4, 5)]
        assert values_in(log) == [b"a", b"b", b"c", b"d", b"e"]
        assert (log.end, log.epochs.entries) == (OffsetAndEpoch(5, 5), ((3, 0), (5, 2)))

    def test_an_empty_log_ends_at_zero_in_epoch_zero(self) -> None:
        log = log_of()
        assert (log.end, log.log_start_offset, log.high_watermark) == (OffsetAndEpoch(0, 0), 0, None)
        assert log.read(0, 100) == b""

    def test_bytes_stay_unchanged_and_a_bytearray_is_patched(self) -> None:
        log = log_of(1)
        given = batch(b"a")
        copy = bytes(bytearray(given))
        log.append_as_leader(given, 1)
        assert given == copy
        buffer = bytearray(given)
        log.append_as_leader(buffer, 1)
        assert bytes(buffer) == log.read(3, 1000)

    @pytest.mark.parametrize(
        ("data", "error", "message"),
        [
            (b"", ProtocolError, "no batches"),
            (batch(b"a")[:-1], ProtocolError, "bytes are left"),
            (batch(b"a") + batch(b"b")[:-1], ProtocolError, "bytes are left"),
            (batch(b"a") + b"x", ProtocolError, "1 bytes are left"),
            (bytes(100), ProtocolError, "magic 0, expected 2"),
            (batch(b"a") + batch(b"x" * 2000), RecordTooLargeError, "a batch of 20.. bytes: the limit is 1000"),
        ],
    )
    def test_what_is_refused_changes_nothing(self, data: bytes, error: type[Exception], message: str) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, max_batch_bytes=1000)
        log.append_as_leader(batch(b"first"), 1)
        size = log.size_in_bytes
        with pytest.raises(error, match=message):
            log.append_as_leader(data, 2)
        assert (log.end, log.size_in_bytes, log.epochs.entries) == (OffsetAndEpoch(1, 1), size, ((1, 0),))
        assert log.append_as_leader(batch(b"second"), 1) == Appended(1, 2)

    def test_an_older_epoch_is_a_bug(self) -> None:
        with pytest.raises(AssertionError, match="epoch 2 after 3"):
            log_of(3).append_as_leader(batch(b"a"), 2)

    def test_the_epoch_file_says_what_the_log_says(self) -> None:
        disk = SimulatedDisk()
        log_of(1, 1, 4, disk=disk)
        assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 4\n"


class TestControlRecords:
    def test_voters_and_version_are_in_force_when_append_returns(self) -> None:
        log = log_of(1)
        assert log.voters.voters == STATIC_VOTERS
        log.append_as_leader(
            encode_control_batch(
                [LeaderChange(1, (1,), (1,)), KRaftVersion(1), VotersRecord(KAFKAS_VOTERS)], timestamp_ms=0
            ),
            2,
        )
        assert (log.voters.voters, log.voters.voters_offset) == (KAFKAS_VOTERS, 4)
        assert log.voters.kraft_version == 1

    def test_truncation_brings_the_earlier_set_back(self) -> None:
        log = log_of(1)
        log.append_as_leader(encode_control_batch([VotersRecord(KAFKAS_VOTERS)], timestamp_ms=0), 1)
        log.truncate_to(2)
        assert (log.voters.voters, log.voters.voters_offset) == (STATIC_VOTERS, None)

    def test_a_follower_folds_in_the_same_step(self) -> None:
        log = log_of()
        log.append_as_follower(encode_control_batch([VotersRecord(KAFKAS_VOTERS)], timestamp_ms=0, leader_epoch=1))
        assert log.voters.voters == KAFKAS_VOTERS

    async def test_a_change_of_voters_leaves_nobody_waiting_for_it(self) -> None:
        log = log_of()
        for change in (
            lambda: log.append_as_leader(encode_control_batch([VotersRecord(KAFKAS_VOTERS)], timestamp_ms=0), 1),
            lambda: log.truncate_to(0),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.voters_changed.park)
                await trio.testing.wait_all_tasks_blocked()
                change()

    def test_an_unreadable_control_record_is_refused_before_writing(self) -> None:
        log = log_of(1)
        bad = encode_batch([NewRecord(key=b"\x00\x00\x00\x06", value=b"\x00\x00\x7f")], timestamp_ms=0, control=True)
        for append in (lambda: log.append_as_leader(bad, 1), lambda: log.append_as_follower(at(bad, 2, 1))):
            with pytest.raises(ProtocolError):
                append()
        assert log.end == OffsetAndEpoch(2, 1)


class TestAppendAsFollower:
    def test_what_the_leader_has_is_taken_byte_for_byte(self) -> None:
        leader, follower = log_of(1, 1, 3), log_of()
        assert follower.append_as_follower(leader.read(0, 1 << 20)) == Appended(0, 6)
        assert follower.read(0, 1 << 20) == leader.read(0, 1 << 20)
        assert follower.epochs.entries == leader.epochs.entries == ((1, 0), (3, 4))

    def test_a_cut_batch_at_the_end_is_left_out(self) -> None:
        leader, follower = log_of(1, 1), log_of()
        data = leader.read(0, 1 << 20)
        assert follower.append_as_follower(data[:-1]) == Appended(0, 2)
        assert follower.append_as_follower(leader.read(2, 1 << 20)[:30]) == Appended(2, 2)
        assert follower.append_as_follower(b"") == Appended(2, 2)
        assert follower.append_as_follower(leader.read(2, 1 << 20)) == Appended(2, 4)
        assert follower.read(0, 1 << 20) == data

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda good: good[:-1] + bytes([good[-1] ^ 1]), "CRC is"),
            (lambda good: good[:16] + b"\x01" + good[17:], "magic 1, expected 2"),
            (lambda good: at(good, 3, 2), "batch at offset 3: expected offset 2"),
            (lambda good: at(good, 1, 2), "batch at offset 1: expected offset 2"),
            (lambda good: at(good, 2, 1), "leader epoch 1, expected 2 to 9"),
            (lambda good: at(good, 2, 10), "leader epoch 10, expected 2 to 9"),
            (lambda good: good + at(good, 3, 1), "leader epoch 1, expected 2 to 9"),
            (lambda good: good + good, "batch at offset 2: expected offset 3"),
            (lambda good: good + bytes(70), "length 0"),
        ],
    )
    def test_what_cannot_follow_is_refused_whole(self, spoil: Callable[[bytes], bytes], message: str) -> None:
        log = log_of(2)
        before = log.read(0, 1 << 20)
        with pytest.raises(ProtocolError, match=message):
            log.append_as_follower(spoil(at(batch(b"good"), 2, 2)), max_epoch=9)
        assert (log.end, log.read(0, 1 << 20)) == (OffsetAndEpoch(2, 2), before)

    def test_without_a_highest_epoch_any_later_one_is_taken(self) -> None:
        log = log_of(2)
        assert log.append_as_follower(at(batch(b"good"), 2, 10)) == Appended(2, 3)


class TestSegments:
    async def test_roll_by_size_seals_and_syncs_the_old_segment(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, 1, 1, disk=disk, segment_bytes=200)
        assert log.synced_end_offset == 4
        names = disk.list_directory(DIRECTORY)
        assert [name for name in names if name.endswith(".log")] == [f"{0:020d}.log", f"{4:020d}.log"]
        assert {f"{0:020d}.index", f"{0:020d}.timeindex", f"{4:020d}.snapshot"} <= set(names)
        disk.crash("all")
        assert open_log(disk).end_offset == 4

    def test_roll_by_age_counts_from_the_segments_creation(self) -> None:
        now = [1_000_000]
        disk = SimulatedDisk()
        log = Log.open(
            disk,
            DIRECTORY,
            topic_id=TOPIC_ID,
            static_voters=STATIC_VOTERS,
            config=LogConfig(segment_ms=500),
            now_ms=lambda: now[0],
        )

        def segments() -> int:
            return sum(name.endswith(".log") for name in disk.list_directory(DIRECTORY))

        log.append_as_leader(batch(b"a", timestamp_ms=0), 1)
        log.append_as_leader(batch(b"b", timestamp_ms=0), 1)
        now[0] += 499
        log.append_as_leader(batch(b"c"), 1)
        assert segments() == 1
        now[0] += 1
        log.append_as_leader(batch(b"d"), 1)
        assert segments() == 2
        log.append_as_leader(batch(b"e"), 1)
        assert segments() == 2

    def test_a_batch_larger_than_a_segment_has_one_to_itself(self) -> None:
        log = log_of(1, segment_bytes=100)
        log.append_as_leader(batch(b"x" * 500), 1)
        log.append_as_leader(batch(b"y"), 1)
        assert values_in(log) == [b"0@1", b"1@1", b"x" * 500, b"y"]

    @pytest.mark.parametrize("size", [0, 2**31])
    def test_a_segment_size_that_an_index_cannot_hold_is_refused(self, size: int) -> None:
        with pytest.raises(ValueError, match=f"segment_bytes: {size}, expected 1 to 2147483647"):
            LogConfig(segment_bytes=size)


class TestRead:
    def test_from_inside_a_batch_the_whole_batch_is_read(self) -> None:
        log = log_of(1, 1)
        assert log.read(1, 1000) == log.read(0, 1000)
        assert log.read(3, 1000) == log.read(2, 1000)

    @pytest.mark.parametrize("max_bytes", [0, 1, 60, 61, 70])
    def test_one_batch_is_read_however_little_is_asked_for(self, max_bytes: int) -> None:
        log = log_of(1, 1, 1)
        data = log.read(2, max_bytes)
        assert [(header.base_offset, header.next_offset) for _, header in iter_headers(data)] == [(2, 4)]

    def test_only_whole_batches_that_fit(self) -> None:
        log = log_of(1, 1, 1)
        size = len(log.read(0, 0))
        assert len(log.read(0, 3 * size - 1)) == 2 * size
        assert len(log.read(0, 2 * size)) == 2 * size
        assert len(log.read(0, 2 * size - 1)) == size

    def test_nothing_beyond_the_end_offset_asked_for(self) -> None:
        log = log_of(1, 1, 1)
        assert log.read(0, 1 << 20, 4) == log.read(0, 2 * len(log.read(0, 0)))
        assert log.read(0, 1 << 20, 5) == log.read(0, 1 << 20, 4)
        assert log.read(0, 1 << 20, 1) == b""
        assert log.read(4, 1 << 20, 4) == b""
        assert log.read(4, 0, 5) == b""
        assert log.read(0, 1 << 20, 100) == log.read(0, 1 << 20)

    @pytest.mark.parametrize("offset", [-1, 7])
    def test_outside_the_log_is_refused(self, offset: int) -> None:
        with pytest.raises(ValueError, match=f"offset {offset}: the log has offsets 0 to 6"):
            log_of(1, 1, 1).read(offset, 100)

    @pytest.mark.parametrize("segment_bytes", [1 << 30, 9000])
    def test_every_offset_is_found_also_without_remembered_positions(self, segment_bytes: int) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=segment_bytes)
        for number in range(200):
            log.append_as_leader(batch(*[b"x" * (number * 7 % 900)] * (number % 3 + 1)), 1)
        disk.kill()
        reopened = open_log(disk, segment_bytes=segment_bytes)
        expected = list(log_batches(reopened))
        for base_offset, next_offset, data in expected:
            for offset in range(base_offset, next_offset):
                assert reopened.read(offset, 0) == data
        assert len(expected) == 200

    async def test_the_time_index_finds_the_first_record_of_a_time(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, segment_bytes=9000)
        times = [1000 + number * 10 if number % 7 else 500 for number in range(300)]
        for time in times:
            log.append_as_leader(batch(b"x" * 100, timestamp_ms=time), 1)
        for wanted in (0, 500, 501, 1010, 1015, 2345, 3990):
            found = next((offset, time) for offset, time in enumerate(times) if time >= wanted)
            assert await log.offset_for_timestamp(wanted) == found
        assert await log.offset_for_timestamp(3991) is None

    async def test_a_record_inside_a_batch_is_found_by_its_time(self) -> None:
        log = log_of()
        records = [NewRecord(b"a", timestamp_ms=5), NewRecord(b"b", timestamp_ms=9), NewRecord(b"c", timestamp_ms=7)]
        log.append_as_leader(encode_batch(records, timestamp_ms=0), 1)
        assert await log.offset_for_timestamp(6) == (1, 9)
        assert await log.offset_for_timestamp(10) is None

    def test_fetch_positions_are_judged_by_the_epochs(self) -> None:
        log = log_of(1, 1, 3)
        assert log.validate_fetch(0, 0) == Valid()
        assert log.validate_fetch(4, 1) == Valid()
        assert log.validate_fetch(6, 3) == Valid()
        assert log.validate_fetch(5, 2) == Diverging(OffsetAndEpoch(4, 1))


def log_batches(log: Log) -> list[tuple[int, int, bytes]]:
    return [(header.base_offset, header.next_offset, data) for header, data in log.iter_batches(0, log.end_offset)]


class TestHighWatermark:
    async def test_it_never_falls_and_wakes_those_who_wait(self) -> None:
        log = log_of(1, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.changed.park)
            await trio.testing.wait_all_tasks_blocked()
            log.advance_high_watermark(2)
        log.advance_high_watermark(0)
        assert log.high_watermark == 2

    def test_it_is_never_beyond_the_end(self) -> None:
        log = log_of(1)
        with pytest.raises(AssertionError, match="high watermark 3, the log ends at 2"):
            log.advance_high_watermark(3)
        assert log.high_watermark is None

    @pytest.mark.parametrize("change", ["append", "truncate", "sync"])
    async def test_other_changes_leave_nobody_waiting(self, change: str) -> None:
        log = log_of(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.changed.park)
            await trio.testing.wait_all_tasks_blocked()
            if change == "append":
                log.append_as_leader(batch(b"x"), 1)
            elif change == "truncate":
                log.truncate_to(0)
            else:
                await log.sync()


class TestProducers:
    async def test_they_survive_a_restart_however_it_came(self) -> None:
        disk = SimulatedDisk()
        log = log_of(1, disk=disk)
        for sequence in (0, 2, 4):
            log.append_as_leader(batch(b"x", b"y", producer_id=7, producer_epoch=1, base_sequence=sequence), 1)
        await log.sync()
        disk.crash()
        reopened = open_log(disk)
        assert reopened.producers.check(7, 1, 2, 2) == Duplicate(4, 5)
        assert isinstance(reopened.producers.check(7, 1, 6, 2), Accept)
        await reopened.close()
        assert open_log(disk).producers.check(7, 1, 4, 2) == Duplicate(6, 7)


class TestNewest:
    """What was appended last is read from memory, as it is in the file."""

    def test_it_is_what_the_file_has_whoever_appended_it(self) -> None:
        disks = SimulatedDisk(), SimulatedDisk()
        leader, follower = map(open_log, disks)
        for value in (b"one", b"two", b"three"):
            offset = leader.end_offset
            leader.append_as_leader(bytearray(batch(value)), 3)
            follower.append_as_follower(leader.read(offset, 1000))
            for log, disk in zip((leader, follower), disks, strict=True):
                data = log.read(offset, 1000)
                assert (disk.peek(FIRST_SEGMENT) or b"").endswith(data)
                assert next(iter_headers(data))[1].base_offset == offset

    def test_a_limit_or_a_size_that_excludes_it_counts(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        log.append_as_leader(batch(b"one") + batch(b"two"), 1)
        first = len(batch(b"one"))
        assert len(log.read(0, 1000)) == 2 * first
        assert len(log.read(0, first)) == first
        assert len(log.read(0, 1000, 1)) == first

    def test_it_is_forgotten_with_what_is_truncated(self) -> None:
        log = open_log(SimulatedDisk())
        log.append_as_leader(batch(b"one"), 1)
        log.append_as_leader(batch(b"two"), 1)
        assert log.read(1, 1000)
        log.truncate_to(1)
        assert log.read(1, 1000) == b""
        log.append_as_leader(batch(b"other"), 2)
        assert values_in(log) == [b"one", b"other"]
        assert log.read(1, 1000) == log.read(0, 1000)[len(batch(b"one")) :]

    def test_a_new_segment_begins_with_its_own(self) -> None:
        log = open_log(SimulatedDisk(), segment_bytes=100)
        for number in range(4):
            log.append_as_leader(batch(b"%d" % number * 20), 1)
            assert next(iter_headers(log.read(number, 1000)))[1].base_offset == number
        assert values_in(log) == [b"%d" % number * 20 for number in range(4)]
