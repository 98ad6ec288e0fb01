"""A partition's directory looked at from outside: what is wrong with it, and in what two replicas differ."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kraft_trio.errors import CorruptLogError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, iter_headers
from kraft_trio.storage.batches.batch_header import patch_base_offset_and_epoch, patch_crc
from kraft_trio.storage.checks.partition_check import PartitionReport, bytes_to_read, check_partition
from kraft_trio.storage.checks.replica_comparison import first_difference
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.preallocation import MAX_PREALLOCATE_BYTES
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.support import (
    DIRECTORY,
    batch,
    kafkas_files,
    open_log,
    take_snapshot,
    voters_batch,
    write_snapshot,
)

VOTERS = VoterSet([Voter(ReplicaKey(id)) for id in (1, 2)])
LAST = f"{DIRECTORY}/{12:020d}.log"


def reopened(disk: SimulatedDisk, preallocate_bytes: int = 0) -> Log:
    return open_log(disk, segment_bytes=240, preallocate_bytes=preallocate_bytes)


async def living(disk: SimulatedDisk, *, last: bytes = b"011", preallocate_bytes: int = 0) -> Log:
    disk.make_directory(DIRECTORY)
    log = reopened(disk, preallocate_bytes)
    log.append_as_leader(voters_batch(VOTERS, kraft_version=1), 1)
    for number in range(11):
        log.append_as_leader(batch(b"%03d" % number), 1 + number // 8)
    log.append_as_leader(batch(last), 2)
    await log.sync()
    log.advance_high_watermark(log.end_offset)
    disk.replace_now(f"{DIRECTORY}/quorum-state", encode_quorum_state(ElectionState(2, 1, None), 1, VOTERS))
    return log


async def stopped(*, trimmed: bool = False) -> SimulatedDisk:
    """A log up to 14 with segments from 0, 3, 6, 9 and 12, and a snapshot up to 10.  `trimmed`: the log starts at 9."""
    disk = SimulatedDisk()
    log = await living(disk)
    await take_snapshot(log, 10)
    if trimmed:
        await log.trim(RetentionLimits(0, None))
        await log.remove_retired()
    await log.close()
    return disk


def placed(value: bytes, offset: int, *, epoch: int) -> bytes:
    """A batch of one value as a leader of that epoch gives it out."""
    data = bytearray(batch(value))
    patch_base_offset_and_epoch(data, 0, offset, epoch)
    return bytes(data)


def report_of(disk: SimulatedDisk) -> PartitionReport:
    before = {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)}
    report = check_partition(disk, DIRECTORY)
    assert {name: disk.peek(f"{DIRECTORY}/{name}") for name in disk.peek_names(DIRECTORY)} == before
    return report


def problem_of(disk: SimulatedDisk) -> str:
    report = report_of(disk)
    (problem,) = report.problems
    return problem


class TestSound:
    async def test_what_is_there_is_counted(self) -> None:
        disk = await stopped()
        read: list[int] = []
        report = check_partition(disk, DIRECTORY, read.append)
        assert (report.problems, report.notes) == ([], [])
        assert (report.log_start_offset, report.log_end, report.kraft_version) == (0, OffsetAndEpoch(14, 2), 1)
        assert (report.segment_count, report.batch_count) == (5, 13)
        (summary,) = report.snapshots
        assert (summary.snapshot_id, summary.record_count) == (OffsetAndEpoch(10, 1), 8)
        assert sum(read) == bytes_to_read(disk, DIRECTORY) == report.log_bytes + summary.size_in_bytes

    async def test_a_trimmed_one(self) -> None:
        report = report_of(await stopped(trimmed=True))
        assert (report.problems, report.notes) == ([], [])
        assert (report.log_start_offset, report.log_end, report.kraft_version) == (9, OffsetAndEpoch(14, 2), 1)

    @pytest.mark.parametrize("directory", ["dynamic", "static"])
    def test_kafkas(self, directory: str) -> None:
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        for name, content in kafkas_files(directory).items():
            disk.replace_now(f"{DIRECTORY}/{name}", content)
        report = report_of(disk)
        assert (report.problems, report.notes) == ([], [])
        assert report.election_state == ElectionState(1, 1, None)

    async def test_one_that_is_being_gone_on_with_after_a_kill(self) -> None:
        disk = SimulatedDisk()
        await living(disk)
        disk.kill()
        assert report_of(disk).problems == []

    def test_an_empty_one(self) -> None:
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        report = report_of(disk)
        assert (report.problems, report.notes, report.log_end) == ([], [], OffsetAndEpoch(0, 0))


class TestLog:
    @pytest.mark.parametrize("at", [0, 5, 8, 16, 17, 21, 30, 45, 60, 65, 70])
    async def test_every_damaged_batch_is_named(self, at: int) -> None:
        disk = await stopped()
        path = f"{DIRECTORY}/{6:020d}.log"
        disk.damage(path, 71 + at, 0x40)
        report = report_of(disk)
        assert report.problems[0].startswith(f"{path}: position 71: ")
        # What follows is looked at all the same.
        assert report.log_end == OffsetAndEpoch(14, 2)

    async def test_damage_hides_the_epoch_where_a_snapshot_ends(self) -> None:
        disk = SimulatedDisk()
        log = await living(disk)
        await take_snapshot(log, 3)
        await log.close()
        path = f"{DIRECTORY}/{0:020d}.log"
        disk.damage(path, 17, 0x40)
        first, second = report_of(disk).problems
        assert first.startswith(f"{path}: position 0: ")
        assert second == f"{DIRECTORY}/{3:020d}.log: first offset 3, expected 0, where the segment before it ends"

    async def test_records_are_looked_at_too(self) -> None:
        disk = await stopped()
        content = bytearray(disk.read_bytes(LAST))
        bad = bytearray(encode_batch([NewRecord(b"bad")], timestamp_ms=0))
        bad[64] ^= 2
        patch_crc(bad)
        patch_base_offset_and_epoch(bad, 0, 14, 2)
        disk.replace_now(LAST, content + bad)
        assert problem_of(disk).startswith(f"{LAST}: position {len(content)}: ")

    async def test_a_missing_segment(self) -> None:
        disk = await stopped()
        disk.remove(f"{DIRECTORY}/{6:020d}.log")
        assert (
            problem_of(disk)
            == f"{DIRECTORY}/{9:020d}.log: first offset 9, expected 6, where the segment before it ends"
        )

    async def test_an_epoch_that_falls(self) -> None:
        disk = await stopped()
        content = bytearray(disk.read_bytes(LAST))
        patch_base_offset_and_epoch(content, 71, 13, 1)
        disk.replace_now(LAST, bytes(content))
        damage = "leader epoch 1 at offset 13, after epoch 2: this batch or the one before it is damaged"
        assert problem_of(disk) == f"{LAST}: position 71: {damage}"

    async def test_a_torn_tail_is_a_note_and_was_never_synced(self) -> None:
        disk = SimulatedDisk()
        log = await living(disk)
        log.append_as_leader(batch(b"torn"), 2)
        disk.kill()
        content = disk.read_bytes(LAST)
        disk.replace_now(LAST, content[:-10])
        report = report_of(disk)
        assert report.problems == []
        assert f"{LAST}: position {2 * 71}: " in report.notes[0]
        assert "a torn tail of 62 bytes, which the next start cuts" in report.notes[0]
        disk.replace_now(LAST, content[:-80])
        assert problem_of(disk).startswith(f"{LAST}: position 71: ")

    @pytest.mark.parametrize("last", [b"011", bytes(40)])
    async def test_preallocated_zeros_are_a_note(self, last: bytes) -> None:
        """A batch may end in zeros, too: they belong to it."""
        disk = SimulatedDisk()
        log = await living(disk, last=last, preallocate_bytes=240)
        position = sum(len(batch) for _, batch in log.iter_batches(12, 14))
        disk.kill()
        size = len(disk.read_bytes(LAST))
        assert position < size
        read: list[int] = []
        assert check_partition(disk, DIRECTORY, read.append).problems == []
        assert sum(read) == bytes_to_read(disk, DIRECTORY)
        note = f"{LAST}: position {position}: {size - position} preallocated bytes of zeros, which the next start cuts"
        assert note in report_of(disk).notes
        assert report_of(disk).log_end == OffsetAndEpoch(14, 2)

    async def test_more_zeros_than_a_node_preallocates_are_a_torn_tail(self) -> None:
        disk = await stopped()
        content = disk.read_bytes(LAST)
        disk.replace_now(LAST, content + bytes(MAX_PREALLOCATE_BYTES + 1))
        tail = f"a torn tail of {MAX_PREALLOCATE_BYTES + 1} bytes, which the next start cuts"
        [note] = [note for note in report_of(disk).notes if note.startswith(LAST)]
        assert note.endswith(f"magic 0, expected 2; {tail}")
        disk.replace_now(LAST, content + bytes(MAX_PREALLOCATE_BYTES))
        [note] = [note for note in report_of(disk).notes if note.startswith(LAST)]
        assert f"{MAX_PREALLOCATE_BYTES} preallocated bytes of zeros" in note

    async def test_zeros_in_place_of_what_was_synced(self) -> None:
        disk = SimulatedDisk()
        await living(disk, preallocate_bytes=240)
        disk.kill()
        content = disk.read_bytes(LAST)
        disk.replace_now(LAST, content[:71] + bytes(len(content) - 71))
        assert problem_of(disk) == f"{LAST}: position 71: batch at position 71: magic 0, expected 2"

    async def test_zeros_before_the_last_segment_or_before_other_bytes(self) -> None:
        disk = await stopped()
        sealed = f"{DIRECTORY}/{9:020d}.log"
        whole = disk.read_bytes(sealed)
        disk.replace_now(sealed, whole + bytes(100))
        end = len(whole)
        assert problem_of(disk) == f"{sealed}: position {end}: batch at position {end}: magic 0, expected 2"
        disk.replace_now(sealed, whole)
        end = len(disk.read_bytes(LAST))
        disk.replace_now(LAST, disk.read_bytes(LAST) + bytes(100) + b"x")
        assert [note for note in report_of(disk).notes if note.endswith("which the next start cuts")] == [
            f"{LAST}: position {end}: batch at position {end}: magic 0, expected 2; a torn tail of 101 bytes, which "
            "the next start cuts"
        ]

    async def test_a_missing_end(self) -> None:
        disk = await stopped()
        disk.replace_now(LAST, disk.read_bytes(LAST)[:71])
        assert problem_of(disk) == (
            f"{DIRECTORY}: the log ends at offset 13, but was synced up to 14 according to the newest producer "
            "snapshot: its end is missing"
        )

    @pytest.mark.parametrize("batches", [0, 1])
    async def test_a_missing_end_is_missing_even_if_a_snapshot_covers_it(self, batches: int) -> None:
        """The snapshot does not take the log's place: the node refuses to start, as what had been synced is gone."""
        disk = await stopped()
        for base_offset in (6, 9, 12):
            disk.remove(f"{DIRECTORY}/{base_offset:020d}.log")
        path = f"{DIRECTORY}/{3:020d}.log"
        disk.replace_now(path, disk.read_bytes(path)[: 71 * batches])
        report = report_of(disk)
        assert (report.problems, report.notes, report.is_damaged) == (
            [
                f"{DIRECTORY}: the log ends at offset {3 + batches}, but was synced up to 14 according to the newest "
                "producer snapshot: its end is missing"
            ],
            [],
            True,
        )
        with pytest.raises(CorruptLogError, match="was synced up to offset 14: its end is missing"):
            reopened(disk)

    async def test_wrong_epochs_beside_the_log_are_a_note(self) -> None:
        disk = await stopped()
        disk.replace_now(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n1 0\n")
        report = report_of(disk)
        assert report.problems == []
        assert report.notes == [
            f"{DIRECTORY}/leader-epoch-checkpoint: says epoch 1 from 0, the log says epoch 1 from 0, epoch 2 from 10; "
            "the next start rewrites it"
        ]

    async def test_an_older_epoch_after_an_uncommitted_one_is_a_note(self) -> None:
        """Figure 8 of the Raft paper: epoch 2's record gives way to one of epoch 1, which the leader of epoch 3 has."""
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        log = reopened(disk)
        disk.replace_now(f"{DIRECTORY}/quorum-state", encode_quorum_state(ElectionState(3, 1, None), 1, VOTERS))
        log.append_as_follower(placed(b"one", 0, epoch=1))
        log.append_as_follower(placed(b"uncommitted", 1, epoch=2))
        await log.sync()
        log.truncate_to(1)
        log.append_as_follower(placed(b"two", 1, epoch=1))
        await log.sync()
        report = report_of(disk)
        assert report.problems == []
        assert report.notes == [
            f"{DIRECTORY}/leader-epoch-checkpoint: says epoch 1 from 0, epoch 2 from 1, the log says epoch 1 from 0; "
            "the next start rewrites it"
        ]

    async def test_what_follows_from_damage_is_not_said_again(self) -> None:
        """Nor is it said what the next start would do: it refuses."""
        disk = SimulatedDisk()
        log = await living(disk)
        await take_snapshot(log, 14)
        await log.close()
        disk.damage(LAST, 60, 0x40)
        report = report_of(disk)
        assert len(report.problems) == 1
        assert report.problems[0].startswith(f"{LAST}: position 0: ")
        assert report.notes == []

    async def test_leftovers_are_notes(self) -> None:
        disk = await stopped()
        name = f"{checkpoint_name(OffsetAndEpoch(12, 2))}.part"
        disk.replace_now(f"{DIRECTORY}/{name}", b"x")
        assert report_of(disk).notes == [f"{DIRECTORY}/{name}: left over; the next start removes it"]


class TestSnapshots:
    PATH = f"{DIRECTORY}/{checkpoint_name(OffsetAndEpoch(10, 1))}"

    async def test_a_damaged_one_is_named_and_what_it_alone_had(self) -> None:
        disk = await stopped()
        disk.damage(self.PATH, 80)
        assert problem_of(disk).startswith(f"{self.PATH}: position 0: batch at offset 0: CRC is 0x")
        disk = await stopped(trimmed=True)
        disk.damage(self.PATH, 80)
        assert report_of(disk).problems[1] == (
            f"{DIRECTORY}: the log starts at offset 9; expected a whole snapshot that ends there or later"
        )

    @pytest.mark.parametrize(
        ("snapshot_id", "problem"),
        [
            (OffsetAndEpoch(1, 1), "ends inside a batch of the log, expected the end of a batch"),
            (OffsetAndEpoch(12, 1), "the log has a record of a later epoch where the snapshot ends"),
            (
                OffsetAndEpoch(7, 3),
                "the log ends before the snapshot does, or has uncommitted records in its place, although a ",
            ),
        ],
    )
    async def test_one_that_is_not_of_this_log(self, snapshot_id: OffsetAndEpoch, problem: str) -> None:
        disk = await stopped()
        await write_snapshot(disk, snapshot_id, ControlState(0, VOTERS, 1), [])
        assert problem_of(disk).startswith(f"{DIRECTORY}/{checkpoint_name(snapshot_id)}: {problem}")

    async def test_one_that_was_about_to_replace_the_log_is_a_note(self) -> None:
        disk = await stopped()
        await write_snapshot(disk, OffsetAndEpoch(50, 2), ControlState(0, VOTERS, 1), [])
        report = report_of(disk)
        assert report.problems == []
        assert report.notes[0].endswith("the next start replaces the log by it")
        disk.damage(f"{DIRECTORY}/{checkpoint_name(OffsetAndEpoch(50, 2))}", 80)
        assert (
            "before the end of the damaged snapshot 50@2: the committed records between the two are lost"
            in (report_of(disk).problems[1])
        )

    async def test_an_older_one_goes_with_the_log_that_gives_way(self) -> None:
        """The node stopped while the newest segments were gone, and the older ones, 0 to 9, were not."""
        disk = await stopped()
        await write_snapshot(disk, OffsetAndEpoch(50, 2), ControlState(0, VOTERS, 1), [])
        for name in disk.peek_names(DIRECTORY):
            if name.endswith(".snapshot") or name in (f"{9:020d}.log", f"{12:020d}.log", "recovery-point"):
                disk.remove(f"{DIRECTORY}/{name}")
        report = report_of(disk)
        assert (report.problems, report.log_end_offset) == ([], 9)
        assert f"{DIRECTORY}/{checkpoint_name(OffsetAndEpoch(10, 1))}: the log ends before" in report.notes[0]
        assert report.notes[0].endswith("the next start removes it with the log")
        log = reopened(disk)
        assert log.snapshots.ids == (OffsetAndEpoch(50, 2),)

    async def test_one_that_has_replaced_the_log_but_for_its_first_segment(self) -> None:
        """The node stopped when the old segments were gone and the new one was not made yet."""
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        await write_snapshot(disk, OffsetAndEpoch(50, 2), ControlState(0, VOTERS, 1), [])
        disk.replace_now(f"{DIRECTORY}/quorum-state", encode_quorum_state(ElectionState(2, 1, None), 1, VOTERS))
        report = report_of(disk)
        assert (report.problems, report.log_start_offset, report.log_end) == ([], 50, OffsetAndEpoch(50, 2))

    async def test_one_below_the_logs_start_is_a_note(self) -> None:
        disk = await stopped(trimmed=True)
        await write_snapshot(disk, OffsetAndEpoch(5, 1), ControlState(0, VOTERS, 1), [])
        report = report_of(disk)
        assert report.problems == []
        assert report.notes[0].endswith("ends below the log's start, 9; the next start removes it")


class TestQuorumState:
    PATH = f"{DIRECTORY}/quorum-state"

    async def test_a_missing_one(self) -> None:
        disk = await stopped()
        disk.remove(self.PATH)
        assert problem_of(disk) == (
            f"{self.PATH}: missing, though the log is of epoch 2: a vote of that epoch would be forgotten"
        )

    async def test_one_older_than_the_log(self) -> None:
        disk = await stopped()
        disk.replace_now(self.PATH, encode_quorum_state(ElectionState(1, None, None), 1, VOTERS))
        assert problem_of(disk).startswith(f"{self.PATH}: leaderEpoch 1, the log has records of epoch 2")

    async def test_a_damaged_one(self) -> None:
        disk = await stopped()
        disk.damage(self.PATH, 4)
        assert problem_of(disk).startswith(f"{self.PATH}: leader")


class TestComparison:
    async def pair(self, change: Callable[[SimulatedDisk], None]) -> str | None:
        """Two replicas on one disk, the other one changed."""
        one, other = await stopped(), await stopped(trimmed=True)
        change(other)
        both = SimulatedDisk()
        reports = []
        for root, disk in (("/one", one), ("/other", other)):
            both.make_directory(root)
            for name in disk.peek_names(DIRECTORY):
                both.replace_now(f"{root}/{name}", disk.read_bytes(f"{DIRECTORY}/{name}"))
            reports.append(check_partition(both, root))
        return first_difference(both, *reports)

    async def test_what_both_have_is_the_same_wherever_they_begin_and_end(self) -> None:
        assert await self.pair(lambda _: None) is None

        def shorter(disk: SimulatedDisk) -> None:
            disk.replace_now(LAST, disk.read_bytes(LAST)[:71])

        assert await self.pair(shorter) is None

        def preallocated(disk: SimulatedDisk) -> None:
            disk.replace_now(LAST, disk.read_bytes(LAST) + bytes(5000))

        assert await self.pair(preallocated) is None

    @pytest.mark.parametrize(("path", "position", "offset"), [(LAST, 71, 13), (f"{DIRECTORY}/{9:020d}.log", 0, 9)])
    async def test_the_first_different_batch_is_named(self, path: str, position: int, offset: int) -> None:
        def differ(disk: SimulatedDisk) -> None:
            content = bytearray(disk.read_bytes(path))
            batch_ = content[position : position + 71]
            batch_[-2] ^= 1
            patch_crc(batch_)
            content[position : position + 71] = batch_
            disk.replace_now(path, bytes(content))

        difference = await self.pair(differ)
        assert difference is not None
        standing = (
            ", which was committed, as snapshot 10@1 covers it"
            if offset < 10
            else ", which no snapshot covers: it may be uncommitted on one of them"
        )
        name = path.rpartition("/")[2]
        assert difference.startswith(
            f"offset {offset}{standing}: /one/{name}, position {position}: offsets {offset} to "
        )
        assert f"; /other/{name}, position {position}: offsets {offset} to {offset}, epoch " in difference

    def change_snapshot(self, at: int) -> Callable[[SimulatedDisk], None]:
        """Change a byte of the batch before the footer."""

        def change(disk: SimulatedDisk) -> None:
            path = f"{DIRECTORY}/{checkpoint_name(OffsetAndEpoch(10, 1))}"
            content = bytearray(disk.read_bytes(path))
            position = [position for position, _ in iter_headers(content)][-2]
            batch_ = content[position:-75]
            batch_[at] ^= 1
            patch_crc(batch_)
            content[position:-75] = batch_
            disk.replace_now(path, bytes(content))

        return change

    async def test_the_first_different_record_of_a_snapshot_is_named(self) -> None:
        difference = await self.pair(self.change_snapshot(-2))
        assert difference is not None
        assert re.match(r"snapshot 10@1, record [1-9]\d*: /one/", difference)
        assert "/one/00000000000000000010-0000000001.checkpoint; /other/" in difference

    async def test_other_timestamps_in_a_snapshot_are_no_difference(self) -> None:
        """Each replica of Kafka writes the time of its own snapshot."""
        assert await self.pair(self.change_snapshot(34)) is None
