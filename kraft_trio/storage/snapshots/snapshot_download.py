"""Receives a snapshot from the leader in pieces, checks it, and stores it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import trio

from kraft_trio.errors import CorruptSnapshotError, ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.disk import Buffer, Disk, join
from kraft_trio.storage.disk.part_file import SPARED_BYTES, PartFile, UnfinishedSnapshot
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.snapshots.snapshot_reader import (
    SnapshotBatch,
    SnapshotBatches,
    SnapshotCount,
    SnapshotSummary,
    read_batches,
)
from kraft_trio.storage.snapshots.snapshot_writer import CHECKPOINT_MODE

BATCHES_AT_A_TIME: Final = 16
"""The number of batches checked before other tasks run: about 1 MiB of those that this implementation writes."""


@attrs.frozen
class _WithPiece:
    """The bytes received so far.  The last piece is still in memory and is not read back."""

    part: PartFile
    position: int
    piece: memoryview

    def size(self) -> int:
        return self.part.size()

    def read_at(self, position: int, size: int) -> Buffer:
        start = position - self.position
        return self.piece[start : start + size] if start >= 0 else self.part.read_at(position, size)


class SnapshotDownload(UnfinishedSnapshot):
    """The download of one snapshot (KIP-630, "Fetch Snapshot").

    One task creates it and uses it in `async with`, or ends it by `finish` or `abandon`.  A lost connection or leader
    does not end it: every replica's snapshot of one id has the same bytes, so the next leader can send the next piece.
    Writing may raise StorageFailure, or DiskFullError; then only `abandon` may follow.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        snapshot_id: OffsetAndEpoch,
        *,
        name: str | None = None,
        nursery: trio.Nursery | None = None,
        spared_bytes: int = SPARED_BYTES,
    ) -> None:
        """Create the file, and remove the rest of an earlier attempt.  `name` defaults to that of a node's snapshot.

        With a nursery, or in `async with`, the device syncs while the next pieces arrive.  For `spared_bytes` see
        PartFile.
        """
        self.snapshot_id = snapshot_id
        self.size_in_bytes: int | None = None
        """The size of the whole snapshot, from the first piece's response; None before."""
        self._batches: SnapshotBatches | None = None
        self._count = SnapshotCount()
        self._damage: ProtocolError | None = None
        """What is wrong with the bytes received."""
        super().__init__(join(directory, checkpoint_name(snapshot_id) if name is None else name))
        try:
            self._part = PartFile(disk, self.path, mode=CHECKPOINT_MODE, nursery=nursery, spared_bytes=spared_bytes)
        except OSError as error:
            raise self._failure(error) from error

    @property
    def position(self) -> int:
        """The number of bytes received, and the position of the next piece."""
        return self._part.size()

    @property
    def is_complete(self) -> bool:
        """Whether every byte has been received, so that `finish` may be called."""
        return self.size_in_bytes is not None and self.position == self.size_in_bytes

    async def append(self, position: int, data: Buffer, size_in_bytes: int) -> None:
        """Append the piece at `position` of a snapshot of that size, and check each batch that is complete.

        `data` is not kept.  Other tasks run meanwhile, and a cancelled call may have appended the piece.  Raises
        ProtocolError, and appends nothing, if the piece is empty, does not continue the last one, exceeds the size, or
        if the size has changed.  Raises CorruptSnapshotError, and abandons the download, at the first damaged batch.
        Raises DiskFullError, before anything is written, if the disk has no room for the whole snapshot.
        """
        if self.size_in_bytes is not None and size_in_bytes != self.size_in_bytes:
            raise ProtocolError(
                f"snapshot {self.snapshot_id}: size {size_in_bytes}, it was {self.size_in_bytes} before: another file"
            )
        if position != self.position:
            raise ProtocolError(f"snapshot {self.snapshot_id}: position {position}, expected {self.position}")
        if not 0 < len(data) <= size_in_bytes - position:
            raise ProtocolError(
                f"snapshot {self.snapshot_id}: {len(data)} bytes at position {position}, expected 1 to "
                f"{size_in_bytes - position}"
            )
        try:
            if self.size_in_bytes is None:
                self._part.check_room(size_in_bytes)
                self.size_in_bytes = size_in_bytes
            await self._part.append(data)
            with memoryview(data) as piece:
                await self._check(_WithPiece(self._part, position, piece))
        except OSError as error:
            raise self._failure(error) from error
        await self._end_if_damaged()

    async def _end_if_damaged(self) -> None:
        if self._damage is not None:
            await self.abandon()
            raise CorruptSnapshotError(f"{self.path}: {self._damage}") from self._damage

    async def _check(self, source: PartFile | _WithPiece) -> None:
        """Check the batches that have arrived whole, up to the first damaged one."""
        if self._batches is None:
            assert self.size_in_bytes is not None, "no piece has come"
            self._batches = SnapshotBatches(self.size_in_bytes, self.snapshot_id.epoch)
        checked, end = 0, self.position
        try:
            while self._damage is None and (batch := self._batches.next(source, end)) is not None:
                self._count.add(batch)
                checked += 1
                if checked % BATCHES_AT_A_TIME == 0:
                    await trio.lowlevel.checkpoint()
        except ProtocolError as error:
            self._damage = error

    def batches(self) -> Iterator[SnapshotBatch]:
        """The batches of a download that is complete, instead of `finish`.  Raises ProtocolError, OSError."""
        assert self.is_complete, f"{self.position} of {self.size_in_bytes} bytes are here"
        return read_batches(self._part, self.snapshot_id.epoch)

    async def finish(self) -> SnapshotSummary:
        """Make it durable under its name, once all of it has been checked.

        Raises CorruptSnapshotError, naming position and what was expected, if it is not a whole snapshot of that id.
        The download is then abandoned.
        """
        assert self.is_complete, f"{self.position} of {self.size_in_bytes} bytes are here"
        try:
            await self._check(self._part)
            await self._end_if_damaged()
            await self._part.finish()
        except OSError as error:
            raise self._failure(error) from error
        self._ended = True
        return self._count.summary(self.snapshot_id)
