"""A large file that is written piece by piece beside its name, and takes the name when it is whole and durable."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.storage.disk import Buffer, Disk, DiskFile

PART_SUFFIX: Final = ".part"

SYNC_EVERY_BYTES: Final = 8 * 1024 * 1024
"""How much is written between two fsyncs, so that the device is never handed all of a large file at once: the fsyncs of
the log, for which others wait, would stand in line behind it."""


class PartFile:
    """Writes `<path>.part`; owned by whoever made it, who ends it with `finish` or `abandon`.

    A crash at any moment leaves `path` as it was, or whole; and perhaps a `.part`, which opening the log removes.
    Every method may raise OSError; then only `abandon` is left.
    """

    def __init__(self, disk: Disk, path: str, *, mode: int) -> None:
        """Begin; what an earlier attempt left is removed.  `mode` is the file's."""
        self._disk = disk
        self.path = path
        self.part_path = path + PART_SUFFIX
        if disk.exists(self.part_path):
            disk.remove(self.part_path)
        self._file: DiskFile = disk.open(self.part_path, create=True, mode=mode)
        self._synced_bytes = 0

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    async def append(self, data: Buffer) -> None:
        """Write at the end.  A checkpoint, after the write; every few megabytes it waits for the device."""
        self._file.append(data)
        if self._file.size() - self._synced_bytes >= SYNC_EVERY_BYTES:
            await self._sync()
        await trio.lowlevel.checkpoint()

    async def sync(self) -> None:
        """Make all of it durable, under the name it still has.  Shielded."""
        if self._synced_bytes < self._file.size():
            await self._sync()

    async def _sync(self) -> None:
        size = self._file.size()
        await self._file.sync_aside()
        self._synced_bytes = size

    async def finish(self) -> None:
        """Make it durable, name included.  Shielded: it is there on return, also for a cancelled caller."""
        await self.sync()
        self._file.close()
        await self._disk.move(self.part_path, self.path)

    async def abandon(self) -> None:
        """Give it up: close it, and remove it where the disk allows that.  Shielded; raises nothing."""
        self._file.close()
        try:
            await self._disk.remove_aside(self.part_path)
        except OSError:
            # It is removed when the log is next opened.
            pass
