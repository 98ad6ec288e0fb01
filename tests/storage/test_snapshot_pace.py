"""A snapshot is written in small steps, so that the device and the event loop stay free for others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import trio
import trio.testing
from crc32c import crc32c

from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches import batch_header, large_record
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.batches.large_record import PIECE_BYTES
from kraft_trio.storage.disk import part_file
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.snapshots import snapshot_writer
from kraft_trio.storage.snapshots.snapshot_reader import (
    check_snapshot,
    open_snapshot,
)
from kraft_trio.storage.snapshots.snapshot_writer import SNAPSHOT_BATCH_BYTES, SnapshotWriter
from tests.storage.written_snapshots import ID, PATH, STATE, new_disk, records

LARGE_BYTES = 5 * PIECE_BYTES
LARGE_RECORDS = {
    "a value": bytes(LARGE_BYTES),
    "a record": NewRecord(bytes(LARGE_BYTES), b"key", (("name", b"x"),), 12345),
}


async def test_no_more_than_a_batch_is_held_whatever_the_size() -> None:
    disk = new_disk()
    sizes: list[int] = []
    drawn = 0
    held: list[int] = []

    def endless() -> Iterator[NewRecord]:
        nonlocal drawn
        for number in range(20_000):
            drawn += 1
            yield NewRecord(b"%0100d" % number)

    writer = SnapshotWriter(disk, "/d", ID, STATE)
    before = 0

    def hook(operation: str, path: str) -> None:
        nonlocal before
        if operation == "append":
            held.append(drawn - before)
            before = drawn
            sizes.append(writer.size_in_bytes)

    disk.hook = hook
    await writer.append(endless())
    summary = await writer.finish()
    disk.hook = None
    assert summary.record_count == 20_000
    assert summary.size_in_bytes > 30 * SNAPSHOT_BATCH_BYTES
    assert max(after - before for before, after in pairwise(sizes)) <= SNAPSHOT_BATCH_BYTES
    assert max(held) * 100 <= SNAPSHOT_BATCH_BYTES + 200
    largest = max(batch.header.size_in_bytes for batch in open_snapshot(disk, PATH, ID))
    assert SNAPSHOT_BATCH_BYTES * 0.8 < largest <= SNAPSHOT_BATCH_BYTES


async def test_the_device_is_given_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_file, "SYNC_EVERY_BYTES", 4000)
    disk = new_disk()
    unsynced: list[int] = []
    async with SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000) as writer:

        def hook(operation: str, path: str) -> None:
            if operation == "append":
                unsynced.append(writer.size_in_bytes - (disk.durable_size(path) or 0))

        disk.sync_directory("/d")
        disk.hook = hook
        await writer.append(records(500))
        await writer.finish()
    # One piece that the device works on, the next one that is written meanwhile.
    assert max(unsynced) < 2 * 4000 + 2 * 1000 < len(unsynced) * 1000


@pytest.mark.parametrize("record", LARGE_RECORDS.values(), ids=LARGE_RECORDS)
async def test_large_record_is_written_in_short_steps(
    record: NewRecord | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step checksums or writes more than a piece of it, and others run between two steps."""
    disk = new_disk()
    covered: list[int] = []

    def noted(data: Buffer, crc: int = 0) -> int:
        covered.append(len(data))
        return crc32c(data, crc)

    monkeypatch.setattr(large_record, "crc32c", noted)
    monkeypatch.setattr(batch_header, "crc32c", noted)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery, SnapshotWriter(disk, "/d", ID, STATE) as writer:
        nursery.start_soon(take_turns)
        sizes = [0]
        disk.hook = lambda operation, path: sizes.append(writer.size_in_bytes) if operation == "append" else None
        await writer.append([b"before", record, b"after"])
        sizes.append(writer.size_in_bytes)
        await writer.finish()
        nursery.cancel_scope.cancel()
    pieces = LARGE_BYTES // PIECE_BYTES
    assert turns > 2 * pieces
    assert max(covered) <= PIECE_BYTES
    assert max(after - before for before, after in pairwise(sizes)) <= PIECE_BYTES
    monkeypatch.undo()
    wanted = NewRecord(record) if isinstance(record, bytes) else record
    timestamp_ms = STATE.last_contained_log_timestamp_ms
    [batch] = [batch for batch in open_snapshot(disk, PATH, ID) if batch.header.size_in_bytes > PIECE_BYTES]
    offset = batch.header.base_offset
    assert batch.data == encode_batch([wanted], timestamp_ms=timestamp_ms, base_offset=offset, leader_epoch=ID.epoch)
    assert check_snapshot(disk, PATH, ID).record_count == 3


@pytest.mark.parametrize(("grows", "largest"), [(False, 8000), (True, 1000)])
async def test_where_somebody_waits_for_the_device_it_is_given_less(
    grows: bool, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_file, "SYNC_EVERY_BYTES", 8000)
    monkeypatch.setattr(part_file, "CONSIDERATE_SYNC_BYTES", 1000)
    disk = new_disk()
    log_end_offset, sizes = 0, [0]

    def grow() -> int:
        nonlocal log_end_offset
        log_end_offset += grows
        return log_end_offset

    async with SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=200, log_end_offset=grow) as writer:
        disk.hook = lambda operation, path: sizes.append(writer.size_in_bytes) if operation == "sync" else None
        await writer.append(records(500))
        await writer.finish()
    written = [after - before for before, after in pairwise(sizes[:-1])]
    assert largest <= max(written) < largest + 3 * 200
    assert len(written) > 4


async def test_once_the_log_stops_growing_it_writes_at_full_speed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """Before that the event loop is left to others for as long as each batch has kept them waiting."""
    monkeypatch.setattr(snapshot_writer, "CONSIDERATE_BYTES", 1000)
    log_end_offset = 0
    pauses: list[tuple[int, float]] = []
    took_s = 0.002

    async with SnapshotWriter(
        new_disk(), "/d", ID, STATE, batch_bytes=100, log_end_offset=lambda: log_end_offset
    ) as writer:
        for number in range(60):
            log_end_offset = min(number, 20)
            autojump_clock.jump(took_s)
            began_at_s = trio.current_time()
            await writer.append(records(1))
            pauses.append((number, round(trio.current_time() - began_at_s, 6)))
        await writer.finish()
    considerate = [number for number, pause in pauses if pause]
    assert {pause for _, pause in pauses} <= {0, took_s, 2 * took_s}, "a batch is of one record or of two"
    assert len(considerate) >= 10
    assert 20 < considerate[-1] < 32


async def test_the_device_works_on_one_piece_while_the_next_is_written(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(part_file, "SYNC_EVERY_BYTES", 4000)
    disk = SimulatedDisk(sync_latency=lambda: 1.0)
    disk.make_directory("/d")
    sizes: list[int] = []
    async with SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000) as writer:
        disk.hook = lambda operation, path: sizes.append(writer.size_in_bytes) if operation == "sync" else None
        began = trio.current_time()
        await writer.append(records(30))
        assert trio.current_time() == began, "it did not wait for the device"
        await writer.append(records(500))
        await writer.finish()
    # When a piece has been made durable, the next one is there as well.
    assert sizes[0] > 2 * 4000
    assert all(4000 < after - before < 6000 for before, after in pairwise(sizes[:-2]))
    assert disk.durable_bytes(PATH) == disk.peek(PATH)


async def test_others_run_between_two_batches() -> None:
    disk = new_disk()
    turns: list[int] = []

    async def other(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            turns.append(writer.size_in_bytes)
            await trio.lowlevel.checkpoint()

    writer = SnapshotWriter(disk, "/d", ID, STATE, batch_bytes=1000)
    async with trio.open_nursery() as nursery:
        await nursery.start(other)
        await writer.append(records(100))
        await writer.finish()
        nursery.cancel_scope.cancel()
    assert len(set(turns)) > 10
