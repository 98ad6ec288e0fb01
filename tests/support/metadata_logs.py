"""Logs and snapshots with metadata records, as controllers of Kafka's write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import trio

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import (
    NewRecord,
    encode_batch,
    encode_control_batch,
    patch_base_offset_and_epoch,
)
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.spark.directories import PARTITION

START_MS = 1_764_000_000_000
IN_BATCH = 7


def batch_of(offset: int, values: Iterable[bytes], epoch: int = 1) -> bytes:
    """One batch; each record has the time START_MS + its offset."""
    made = bytearray(
        encode_batch(
            [NewRecord(value, timestamp_ms=START_MS + offset + at) for at, value in enumerate(values)],
            timestamp_ms=START_MS,
        )
    )
    patch_base_offset_and_epoch(made, 0, offset, epoch)
    return bytes(made)


def elected(offset: int, leader: int, epoch: int) -> bytes:
    made = bytearray(encode_control_batch([LeaderChange(leader, (1, 2, 3), (1, 2))], timestamp_ms=START_MS + offset))
    patch_base_offset_and_epoch(made, 0, offset, epoch)
    return bytes(made)


def log_of(values: Sequence[bytes], first: int = 1) -> bytes:
    """Elections of leader 3 at offset 0 if the log begins there, and batches."""
    batches = [elected(0, 3, 1)] if first == 1 else []
    batches += [batch_of(first + at, values[at : at + IN_BATCH]) for at in range(0, len(values), IN_BATCH)]
    return b"".join(batches)


def take_snapshot(directory: Path, end: int, values: Iterable[bytes], epoch: int = 1) -> None:
    async def write() -> None:
        state = ControlState(last_contained_log_timestamp_ms=START_MS + end - 1)
        async with SnapshotWriter(RealDisk(), str(directory / PARTITION), OffsetAndEpoch(end, epoch), state) as writer:
            for value in values:
                await writer.append([NewRecord(value)])
            await writer.finish()

    trio.run(write)
