"""A crash at every change of the disk while a snapshot is written, a log trimmed or fully truncated, and at the end.

Afterwards the log opens, what was promised is there, in the log or in a snapshot, and what is there is durable and can
be gone on with (scenario S9).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import attrs
import pytest

from kraft_trio.errors import StorageFailure
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import decode_records
from kraft_trio.storage.batches.batch_header import patch_base_offset_and_epoch
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.support import (
    DIRECTORY,
    batch,
    change,
    open_log,
    producer_batch,
    snapshot_state,
    take_snapshot,
    values_of_snapshot,
    voters_batch,
    write_snapshot,
)
from tests.support import sizes

pytestmark = pytest.mark.rotating(2)

EVERYTHING = RetentionLimits(0, None)
OLD_VOTERS, NEW_VOTERS, SNAPSHOT_VOTERS = (
    VoterSet([Voter(ReplicaKey(id)) for id in ids]) for ids in ((1, 2), (1, 2, 3), (4, 5))
)


LOSSES: Sequence[Loss] = sizes.part(["all", "some", "reordered"], 3)
"""What a crash takes of what was not synced.  Every run crashes at every change."""


def reopened(disk: SimulatedDisk) -> Log:
    return open_log(disk, segment_bytes=300)


def state_of(log: Log) -> tuple[list[bytes], list[bytes]]:
    """What the newest snapshot remembers, and the values of the log behind it: a state machine's whole input."""
    newest = log.snapshots.newest
    remembered = [] if newest is None else values_of_snapshot(log, newest)
    from_offset = 0 if newest is None else newest.offset
    values = [
        record.value or b""
        for header, data in log.iter_batches(max(from_offset, log.log_start_offset), log.end_offset)
        if not header.is_control and header.base_offset >= from_offset
        for record in decode_records(data, 0, header)
    ]
    return remembered, values


def check_legal(log: Log, where: str) -> None:
    """What must hold of any log that was opened (invariants VotersInForce and SnapshotsCoverTheLog)."""
    ids = log.snapshots.ids
    assert not log.snapshots.damaged, where
    if log.log_start_offset > 0:
        assert ids, where
        assert log.log_start_offset <= ids[0].offset, where
    for snapshot_id in ids:
        values_of_snapshot(log, snapshot_id)
        assert snapshot_id.offset <= log.end_offset, where
    assert log.epochs.entries == tuple(sorted(log.epochs.entries)), where
    if log.epochs.entries:
        assert log.epochs.entries[0][1] == log.log_start_offset, where
    # What derives from the log says what the log says.
    if ids:
        assert log.producers.check(7, 0, 99, 1) is not None
        fresh = snapshot_state(log, log.end_offset)
        assert fresh.voters in (log.voters.voters, None), where


@attrs.define
class Life:
    """A log whose contents and voters are known, on a disk that crashes at some call of what is done to it."""

    disk: SimulatedDisk
    log: Log
    values: list[bytes]
    """Synced and committed."""


async def living(disk: SimulatedDisk) -> Life:
    """Voters, then values in segments of three or four, two epochs, one producer; a snapshot in the middle."""
    disk.make_directory(DIRECTORY)
    log = reopened(disk)
    log.append_as_leader(voters_batch(OLD_VOTERS, kraft_version=1), 1)
    values: list[bytes] = []
    for number in range(14):
        if number == 10:
            log.append_as_leader(voters_batch(NEW_VOTERS), 3)
        value = b"%04d" % number
        log.append_as_leader(producer_batch(value, number), 1 if number < 7 else 3)
        values.append(value)
    await log.sync()
    log.advance_high_watermark(log.end_offset)
    await take_snapshot(log, 5)
    return Life(disk, log, values)


@attrs.define
class Crash:
    """Of the machine, at some change of its disk."""

    has_come: bool = False


@contextmanager
def crashing(disk: SimulatedDisk, point: int, lose: Loss) -> Iterator[Crash]:
    """A crash at the change of that number, or at the end if there are fewer; afterwards the disk works."""
    crash = Crash()
    crashes = disk.crashes
    disk.crash_at(change(point), lose=lose)
    with suppress(StorageFailure, OSError):
        yield crash
    crash.has_come = disk.crashes > crashes
    disk.clear_faults()
    if not crash.has_come:
        disk.crash(lose)


async def snapshot(life: Life) -> None:
    await take_snapshot(life.log, 11)


async def trim(life: Life) -> None:
    await take_snapshot(life.log, 11)
    await life.log.trim(EVERYTHING)
    await life.log.remove_retired()


async def trim_twice_and_close(life: Life) -> None:
    await take_snapshot(life.log, 9)
    await life.log.trim(EVERYTHING)
    life.log.append_as_leader(batch(b"0014"), 3)
    await life.log.sync()
    life.log.advance_high_watermark(life.log.end_offset)
    life.values.append(b"0014")
    await take_snapshot(life.log, 15)
    await life.log.trim(EVERYTHING)
    await life.log.remove_retired()
    await life.log.close()


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("what", [snapshot, trim, trim_twice_and_close], ids=lambda what: what.__name__)
async def test_a_crash_while_snapshotting_or_trimming_loses_nothing(
    what: Callable[[Life], Awaitable[None]], lose: Loss
) -> None:
    point = 0
    while True:
        point += 1
        disk = SimulatedDisk(random.Random(f"{what.__name__}/{lose}/{point}"))
        life = await living(disk)
        before = list(life.values)
        with crashing(disk, point, lose) as crash:
            await what(life)
        where = f"crash at change {point}"
        log = reopened(disk)
        check_legal(log, where)
        remembered, values = state_of(log)
        found = remembered + values
        # Everything that was committed, and perhaps a value that was not synced yet.
        assert found in (before, life.values, [*before, b"0014"]), where
        assert found[: len(life.values)] == life.values, where
        assert log.voters.voters == NEW_VOTERS, where
        assert log.high_watermark is not None, where
        assert log.high_watermark >= 5, where
        await gone_on_with(log, where)
        if not crash.has_come:
            break
    assert point > 10


async def gone_on_with(log: Log, where: str) -> None:
    """What was found is durable, the log can be appended to, and what was left over is gone."""
    disk = log._segments.disk
    assert isinstance(disk, SimulatedDisk)
    found, start, end = state_of(log), log.log_start_offset, log.end
    disk.crash("all")
    again = reopened(disk)
    assert (state_of(again), again.log_start_offset, again.end) == (found, start, end), where
    assert (again.voters.voters, again.epochs.entries) == (log.voters.voters, log.epochs.entries), where
    assert [(p.producer_id, p.batches[-1]) for p in again.producers] == [
        (p.producer_id, p.batches[-1]) for p in log.producers
    ], where
    again.append_as_leader(batch(b"after"), end.epoch + 1)
    await again.sync()
    again.advance_high_watermark(again.end_offset)
    await take_snapshot(again, again.end_offset)
    await again.trim(EVERYTHING)
    await again.remove_retired()
    await again.close()
    last = reopened(disk)
    remembered, values = state_of(last)
    assert (remembered, values) == ([*found[0], *found[1], b"after"], []), where
    assert not [name for name in disk.peek_names(DIRECTORY) if name.endswith((".deleted", ".tmp")) or ".part" in name]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("snapshot_id", [OffsetAndEpoch(40, 4), OffsetAndEpoch(40, 3), OffsetAndEpoch(13, 4)], ids=str)
async def test_a_crash_while_a_snapshot_replaces_the_log_leaves_one(snapshot_id: OffsetAndEpoch, lose: Loss) -> None:
    """13@4 is in the place of records that were never committed: those from 12 on."""
    point = 0
    outcomes = set()
    while True:
        point += 1
        disk = SimulatedDisk(random.Random(f"{snapshot_id}/{lose}/{point}"))
        life = await living(disk)
        await life.log.close()
        log = reopened(disk)
        before, voters, end = state_of(log), log.voters.voters, log.end
        is_installed = is_there = is_followed = False
        with crashing(disk, point, lose) as crash:
            await write_snapshot(
                disk, snapshot_id, ControlState(1000, SNAPSHOT_VOTERS, 1), [b"s%03d" % n for n in range(30)]
            )
            is_there = True
            log.add_snapshot(snapshot_id)
            log.truncate_fully_to(snapshot_id)
            is_installed = True
            await log.remove_retired()
            follow(log, b"next", snapshot_id.epoch)
            await log.sync()
            is_followed = True
            await log.close()
        where = f"crash at change {point}"
        log = reopened(disk)
        check_legal(log, where)
        if log.log_start_offset == snapshot_id.offset:
            outcomes.add("replaced")
            remembered, values = state_of(log)
            assert remembered == [b"s%03d" % n for n in range(30)], where
            assert values in ([[b"next"]] if is_followed else [[], [b"next"]]), where
            assert (log.voters.voters, log.voters.voters_offset) == (SNAPSHOT_VOTERS, snapshot_id.offset - 1), where
            assert (log.high_watermark, len(log.producers)) == (snapshot_id.offset, 0), where
        else:
            outcomes.add("kept")
            assert not is_there, where
            assert (state_of(log), log.voters.voters, log.end) == (before, voters, end), where
        assert log.log_start_offset == snapshot_id.offset or not is_installed, where
        await gone_on_with(log, where)
        if not crash.has_come:
            break
    assert point > 30
    assert outcomes == {"kept", "replaced"}


def follow(log: Log, value: bytes, epoch: int) -> None:
    data = bytearray(batch(value))
    patch_base_offset_and_epoch(data, 0, log.end_offset, epoch)
    log.append_as_follower(bytes(data))


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("is_closed", [False, True], ids=["killed", "closed"])
async def test_a_second_crash_while_the_first_is_recovered_from(is_closed: bool, lose: Loss) -> None:
    """The snapshot is there, the log is not truncated: opening continues with it, and crashes too, at every call."""
    snapshot_id = OffsetAndEpoch(40, 4)
    point = 0
    while True:
        point += 1
        disk = SimulatedDisk(random.Random(f"{lose}/{point}"))
        life = await living(disk)
        if is_closed:
            await life.log.close()
        await write_snapshot(disk, snapshot_id, ControlState(1000, SNAPSHOT_VOTERS, 1), [b"state"])
        disk.kill()
        with crashing(disk, point, lose) as crash:
            reopened(disk)
        log = reopened(disk)
        check_legal(log, f"crash at change {point}")
        assert (log.end, log.voters.voters, state_of(log)) == (snapshot_id, SNAPSHOT_VOTERS, ([b"state"], []))
        await gone_on_with(log, f"crash at change {point}")
        if not crash.has_come:
            break
    assert point > 30
