"""Snapshots of a few records on a simulated disk, for tests of writing and of reading them."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, decode_records
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.snapshots.snapshot_reader import (
    ControlState,
    open_snapshot,
)
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.storage.support import KAFKAS_VOTERS

ID = OffsetAndEpoch(1234, 7)
NAME = "00000000000000001234-0000000007.checkpoint"
PATH = f"/d/{NAME}"
STATE = ControlState(5000, KAFKAS_VOTERS, 1)


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    return disk


async def write(
    disk: Disk,
    *groups: Sequence[NewRecord],
    directory: str = "/d",
    state: ControlState = STATE,
    batch_bytes: int = 1000,
) -> None:
    async with SnapshotWriter(disk, directory, ID, state, batch_bytes=batch_bytes) as writer:
        for group in groups:
            await writer.append(group)
        await writer.finish()


def values(disk: Disk, path: str = PATH) -> list[bytes | None]:
    return [
        record.value
        for batch in open_snapshot(disk, path, ID)
        if not batch.header.is_control
        for record in decode_records(batch.data, 0, batch.header)
    ]


def records(count: int, size: int = 100) -> list[NewRecord]:
    return [NewRecord(b"%05d" % number * (size // 5)) for number in range(count)]
