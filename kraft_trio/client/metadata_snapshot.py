"""Writes a snapshot of Kafka's metadata that ends later than the one which a controller has taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

import trio

from kraft_trio.client.committed_log import CommittedBatch
from kraft_trio.client.metadata_tail import MetadataTail
from kraft_trio.errors import CorruptSnapshotError, DiskFullError, ProtocolError, StorageError, StorageFailure
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.snapshots.snapshot_download import SnapshotDownload
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, SnapshotBatch, SnapshotSummary, control_state_of
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

NOTHING: Final = ControlState(-1)
"""The state at the start of a log."""


def refuse_existing(disk: Disk, path: str) -> None:
    """Raise StorageError if there is such a file."""
    if disk.exists(path):
        raise StorageError(f"{path}: already exists and is not overwritten")


def state_of(download: SnapshotDownload) -> ControlState:
    """The state at the end of a snapshot that is complete.  Raises CorruptSnapshotError."""
    return control_state_of(next(_batches(download)).control_records)


async def write_later_snapshot(
    disk: Disk, directory: str, name: str | None, download: SnapshotDownload | None, tail: MetadataTail
) -> tuple[str, SnapshotSummary]:
    """Write the records of the older snapshot, if there is one, and then those behind it.  Returns the path, too.

    Raises StorageError if the file exists or cannot be created, DiskFullError, StorageFailure, CorruptSnapshotError.
    """
    final = checkpoint_name(tail.end) if name is None else name
    path = join(directory, final)
    refuse_existing(disk, path)
    try:
        writer = SnapshotWriter(disk, directory, tail.end, tail.state, name=final, spared_bytes=0)
    except DiskFullError:
        raise
    except StorageFailure as error:
        raise StorageError(str(error)) from error
    async with writer:
        if download is not None:
            async for values in _values(download):
                await writer.append(values)
        await writer.append(tail.values)
        return path, await writer.finish()


async def _values(download: SnapshotDownload) -> AsyncIterator[list[bytes]]:
    for batch in _batches(download):
        if not batch.header.is_control:
            for records in CommittedBatch(batch.data, 0, batch.header).records():
                yield [record.value or b"" for record in records]
                await trio.lowlevel.checkpoint()


def _batches(download: SnapshotDownload) -> Iterator[SnapshotBatch]:
    try:
        yield from download.batches()
    except ProtocolError as error:
        raise CorruptSnapshotError(f"{download.path}: {error}") from error
