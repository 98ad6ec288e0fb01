"""A process that appends, takes snapshots, trims and installs without end, and tells what it has promised.

`python -m tests.storage.snapshot_worker DIRECTORY MODE`; it is killed from outside.  A line on stdout is a promise: the
number of values that are durable, in the log or in a snapshot.
"""

from __future__ import annotations

import sys

import trio

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import decode_records
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.retention import RetentionLimits
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, open_snapshot
from tests.storage.support import batch, open_log, snapshot_state, snapshot_values, write_snapshot

VALUES_A_ROUND = 40


def value(number: int) -> bytes:
    return b"%012d" % number * 20


def opened(disk: RealDisk, directory: str) -> Log:
    return open_log(disk, directory, segment_bytes=8192)


def state_of(disk: RealDisk, log: Log) -> list[bytes]:
    """All values in order: those that the newest snapshot remembers, and those of the log behind it."""
    newest = log.snapshots.newest
    values: list[bytes] = []
    from_offset = 0
    if newest is not None:
        from_offset = newest.offset
        for snapshot_batch in open_snapshot(disk, log.snapshots.path(newest), newest):
            if not snapshot_batch.header.is_control:
                values += [r.value or b"" for r in decode_records(snapshot_batch.data, 0, snapshot_batch.header)]
    for header, data in log.iter_batches(max(from_offset, log.log_start_offset), log.end_offset):
        if header.base_offset >= from_offset:
            values += [record.value or b"" for record in decode_records(data, 0, header)]
    return values


def tell(count: int) -> None:
    print(count, flush=True)


async def work(directory: str, mode: str) -> None:
    disk = RealDisk()
    log = opened(disk, directory)
    count = len(state_of(disk, log))
    tell(count)
    while True:
        for _ in range(VALUES_A_ROUND):
            log.append_as_leader(batch(value(count)), max(1, log.end.epoch))
            count += 1
        await log.sync()
        tell(count)
        log.advance_high_watermark(log.end_offset)
        if mode == "install":
            await install(disk, log, count)
        else:
            await take(disk, log)
        if mode == "trim":
            await log.trim(RetentionLimits(40_000, None))
            await log.remove_retired()


async def take(disk: RealDisk, log: Log) -> None:
    snapshot_id = log.next_snapshot_id(log.end_offset)
    assert snapshot_id is not None
    state, values = snapshot_state(log, log.end_offset), snapshot_values(log, log.end_offset)
    await write_snapshot(disk, snapshot_id, state, values, log.directory)
    log.add_snapshot(snapshot_id)


async def install(disk: RealDisk, log: Log, count: int) -> None:
    """A snapshot of the same values that ends further on, as a leader's would that had batches of its own."""
    snapshot_id = OffsetAndEpoch(log.end_offset + 10, log.end.epoch + 1)
    await write_snapshot(disk, snapshot_id, ControlState(1000), [value(n) for n in range(count)], log.directory)
    log.add_snapshot(snapshot_id)
    log.truncate_fully_to(snapshot_id)
    await log.remove_retired()


if __name__ == "__main__":
    trio.run(work, *sys.argv[1:])
