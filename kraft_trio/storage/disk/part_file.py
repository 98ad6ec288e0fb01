"""A large file written as `<path>.part`, and renamed once it is whole and durable."""

from __future__ import annotations

import errno
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Self

import trio

from kraft_trio.errors import StorageFailure
from kraft_trio.storage.disk.disk import Buffer, Disk, DiskFile, parent
from kraft_trio.storage.disk.failures import storage_failure

PART_SUFFIX: Final = ".part"

SYNC_EVERY_BYTES: Final = 8 * 1024 * 1024
CONSIDERATE_SYNC_BYTES: Final = 1024 * 1024
"""Bytes between two fsyncs, usually and while the log grows.

The log's fsyncs queue behind these writes in the device.  With the larger value they take up to ten times as long; with
the smaller one the file is written half as fast."""

SPARED_BYTES: Final = 8 * 1024 * 1024
"""Bytes that such a file leaves free for the log.  A snapshot can be written later."""


class PartFile:
    """Writes `<path>.part`.  Its creator ends it with `finish` or `abandon`.

    After a crash `path` is unchanged or whole.  Opening the log removes a remaining `.part`.  Every method may raise
    OSError; then only `abandon` may follow.

    Inside `async with`, or with a nursery, fsyncs run while the next part is written.  Leaving the `async with` neither
    finishes nor abandons the file.
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
        """Create the file, and remove the rest of an earlier attempt.  Fsyncs run in `nursery`.

        `spared_bytes` stay free on the disk; pass 0 if no log is on it.
        """
        self._disk = disk
        self.path = path
        self.part_path = path + PART_SUFFIX
        if disk.exists(self.part_path):
            disk.remove(self.part_path)
        self._file: DiskFile = disk.open(self.part_path, create=True, exclusive=True, mode=mode)
        self._synced_bytes = 0
        """Bytes for which an fsync has started."""
        self._nursery = nursery
        self._spared_bytes = spared_bytes
        self.is_considerate = False
        """Set by the writer while other tasks wait for the device."""
        self._has_been_closed = False
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._has_ended = trio.Event()
        """Set while no fsync runs."""
        self._has_ended.set()
        self._error: OSError | None = None
        """The error of a background fsync."""

    async def __aenter__(self) -> PartFile:
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the running fsync.  The body's own exception passes unwrapped."""
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
        """Write at the end, then checkpoint.  Waits for the device if that is far behind."""
        self._raise_error()
        self.check_room(len(data))
        self._file.append(data)
        sync_every = CONSIDERATE_SYNC_BYTES if self.is_considerate else SYNC_EVERY_BYTES
        if self._file.size() - self._synced_bytes >= sync_every:
            await self._begin_sync()
        await trio.lowlevel.checkpoint()

    def check_room(self, size: int) -> None:
        """Raise OSError if the disk has no room for so many bytes more."""
        if not self._spared_bytes:
            return
        free_bytes = self._disk.free_bytes(parent(self.path))
        if free_bytes is not None and free_bytes < size + self._spared_bytes:
            raise OSError(errno.ENOSPC, f"no room: {self._spared_bytes} bytes are left to the log", self.path)

    async def sync(self) -> None:
        """Make everything durable under the `.part` name.  Shielded."""
        with trio.CancelScope(shield=True):
            await self._has_ended.wait()
        self._raise_error()
        if self._synced_bytes < self._file.size():
            self._synced_bytes = self._file.size()
            await self._file.sync_aside()

    async def finish(self) -> None:
        """Make the file and its final name durable.  Shielded, so the file is there even if the caller is cancelled."""
        await self.sync()
        self._close()
        await self._disk.move(self.part_path, self.path)

    async def abandon(self) -> None:
        """Close the file and try to remove it.  Shielded; raises nothing."""
        self._close()
        try:
            await self._disk.remove_aside(self.part_path)
        except OSError:
            # It is removed when the log is next opened.
            pass

    async def _begin_sync(self) -> None:
        """Start an fsync, one at a time.  Waits for the previous one, which bounds what is unsynced."""
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
