"""A large file that is written piece by piece beside its name, and takes the name when it is whole and durable."""

from __future__ import annotations

import errno
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Self

import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.storage.disk import Buffer, Disk, DiskFile, parent
from kraft_trio.storage.failures import storage_failure

PART_SUFFIX: Final = ".part"

SYNC_EVERY_BYTES: Final = 8 * 1024 * 1024
CONSIDERATE_SYNC_BYTES: Final = 1024 * 1024
"""How much is written between two fsyncs, so that the device is never handed all of a large file at once; and how much
where somebody waits for the log's fsyncs, which stand in line behind it in the device.  With the larger one those take
ten times as long at their worst; with the smaller one the file is written at half the pace."""

SPARED_BYTES: Final = 8 * 1024 * 1024
"""How much of a node's disk such a file leaves free: it can be given up and written later, and the log cannot."""


class PartFile:
    """Writes `<path>.part`; owned by whoever made it, who ends it with `finish` or `abandon`.

    A crash at any moment leaves `path` as it was, or whole; and perhaps a `.part`, which opening the log removes.
    Every method may raise OSError; then only `abandon` is left.

    In an `async with`, which ends neither, and with a nursery, the device works on one piece while the next is written;
    else in between.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        mode: int,
        nursery: trio.Nursery | None = None,
        spared_bytes: int = SPARED_BYTES,
    ) -> None:
        """Begin; what an earlier attempt left is removed.  `mode` is the file's; in `nursery` its fsyncs are made.

        `spared_bytes` is left free on the disk: 0 where no log is on it.
        """
        self._disk = disk
        self.path = path
        self.part_path = path + PART_SUFFIX
        if disk.exists(self.part_path):
            disk.remove(self.part_path)
        self._file: DiskFile = disk.open(self.part_path, create=True, exclusive=True, mode=mode)
        self._synced_bytes = 0
        """For which an fsync has been begun."""
        self._nursery = nursery
        self._spared_bytes = spared_bytes
        self.is_considerate = False
        """Whether others wait for the device; set by whoever writes."""
        self._has_been_closed = False
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._has_ended = trio.Event()
        """Set when no fsync is under way."""
        self._has_ended.set()
        self._error: OSError | None = None
        """Of an fsync that nobody waited for."""

    async def __aenter__(self) -> PartFile:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the fsync under way; what its caller raises is not the nursery's to wrap, nor to be replaced."""
        manager, nursery = self._manager, self._nursery
        assert manager is not None, "left before it was entered"
        assert nursery is not None, "left before it was entered"
        nursery.cancel_scope.shield = True
        await manager.__aexit__(None, None, None)
        self._nursery = None

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    async def append(self, data: Buffer) -> None:
        """Write at the end.  A checkpoint, after the write; where the device is far behind, it waits for that."""
        self._raise_error()
        self._check_room(len(data))
        self._file.append(data)
        sync_every = CONSIDERATE_SYNC_BYTES if self.is_considerate else SYNC_EVERY_BYTES
        if self._file.size() - self._synced_bytes >= sync_every:
            await self._begin_sync()
        await trio.lowlevel.checkpoint()

    def _check_room(self, size: int) -> None:
        if not self._spared_bytes:
            return
        free_bytes = self._disk.free_bytes(parent(self.path))
        if free_bytes is not None and free_bytes < size + self._spared_bytes:
            raise OSError(errno.ENOSPC, f"no room: {self._spared_bytes} bytes are left to the log", self.path)

    async def sync(self) -> None:
        """Make all of it durable, under the name it still has.  Shielded."""
        with trio.CancelScope(shield=True):
            await self._has_ended.wait()
        self._raise_error()
        if self._synced_bytes < self._file.size():
            self._synced_bytes = self._file.size()
            await self._file.sync_aside()

    async def finish(self) -> None:
        """Make it durable, name included.  Shielded: it is there on return, also for a cancelled caller."""
        await self.sync()
        self._close()
        await self._disk.move(self.part_path, self.path)

    async def abandon(self) -> None:
        """Give it up: close it, and remove it where the disk allows that.  Shielded; raises nothing."""
        self._close()
        try:
            await self._disk.remove_aside(self.part_path)
        except OSError:
            # It is removed when the log is next opened.
            pass

    async def _begin_sync(self) -> None:
        """One at a time: while one is under way no more is written than the next one is to make durable."""
        if self._nursery is None:
            await self.sync()
            return
        await self._has_ended.wait()
        self._raise_error()
        self._synced_bytes = self._file.size()
        self._has_ended = trio.Event()
        self._nursery.start_soon(self._sync_behind)

    async def _sync_behind(self) -> None:
        try:
            # It may have been abandoned before this had its first turn.
            if not self._has_been_closed:
                await self._file.sync_aside()
        except OSError as error:
            self._error = error
        finally:
            self._has_ended.set()

    def _close(self) -> None:
        self._has_been_closed = True
        self._file.close()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class UnfinishedSnapshot:
    """A snapshot that is being written or fetched, in a `.part` file.

    Leaving it unfinished, by the end of `async with` or by `abandon`, removes the file.
    """

    _part: PartFile

    def __init__(self, path: str) -> None:
        self.path = path
        self._ended = False

    async def abandon(self) -> None:
        """Remove the unfinished snapshot.  Does nothing after `finish` or an earlier call."""
        if not self._ended:
            self._ended = True
            await self._part.abandon()

    async def __aenter__(self) -> Self:
        await self._part.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.abandon()
        await self._part.__aexit__(kind, error, traceback)

    def _failure(self, error: OSError) -> StorageFailure:
        return storage_failure(f"{self.path}: the snapshot cannot be written", error)
