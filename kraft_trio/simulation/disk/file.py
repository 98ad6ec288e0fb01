"""Open files and locks of the simulated disk."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.disk.inode import Inode
from kraft_trio.storage.disk.disk import Buffer


class OwningDisk(Protocol):
    """What open files and locks need of their disk."""

    random: random.Random
    now_ms: Callable[[], int]
    sync_latency: Callable[[], float]
    crashes: int
    """How often the disk has crashed or its process was killed.  Files and locks from before are dead."""
    locked: set[str]

    def call(self, operation: str, path: str) -> None:
        """A call begins.  Raises OSError if it is to fail."""
        ...

    def done(self, operation: str, path: str) -> None:
        """A call has taken effect.  Raises OSError if the disk crashes then."""
        ...

    def room(self) -> int | None:
        """The free space of the disk in bytes, or None without a limit."""
        ...


class SimulatedFile:
    """An open file of the simulated disk; see `DiskFile`.  A crash of the disk closes it."""

    def __init__(self, disk: OwningDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._size = len(inode.content)
        """The size that the writer knows.  A failed append may have left bytes beyond it."""
        self._incarnation = disk.crashes
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        self._call("read_at")
        return bytes(self._inode.content[position : min(self._size, position + max(0, size))])

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read_at(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @contextmanager
    def view(self) -> Iterator[memoryview]:
        self._call("view")
        with memoryview(bytes(self._inode.content[: self._size])) as view:
            yield view

    def ensure_readable(self, position: int, size: int) -> int:
        return min(self._size, position + size)

    def append(self, data: Buffer, preallocate: int = 0) -> None:
        self._check_usable()
        try:
            self._disk.call("append", self._path)
        except OSError:
            if self._incarnation == self._disk.crashes:
                self._write(self._size, data[: self._disk.random.randint(0, len(data))])
            raise
        room = self._disk.room()
        end = self._size + len(data)
        growth = end - len(self._inode.content)
        if room is not None and room < growth:
            self._write(self._size, data[: len(data) - growth + room])
            raise OSError(errno.ENOSPC, "no space left on the simulated disk", self._path)
        if growth > 0 and (room is None or room >= growth + preallocate):
            data = bytes(data) + bytes(preallocate)
        self._write(self._size, data)
        self._size = end
        self._disk.done("append", self._path)

    def overwrite(self, position: int, data: Buffer) -> None:
        if not 0 <= position <= self._size - len(data):
            raise ValueError(
                f"{self._path}: cannot overwrite {len(data)} bytes at {position}, the file has {self._size}"
            )
        self._call("overwrite")
        self._write(position, data)
        self._disk.done("overwrite", self._path)

    def truncate(self, size: int) -> None:
        if not 0 <= size <= self._size:
            raise ValueError(f"{self._path}: cannot truncate to {size} bytes, the file has {self._size}")
        self._call("truncate")
        self._inode.truncate(size)
        self._inode.modified_ms = self._disk.now_ms()
        self._size = size
        self._disk.done("truncate", self._path)

    def _write(self, position: int, data: Buffer) -> None:
        self._inode.write(position, data)
        self._inode.modified_ms = self._disk.now_ms()

    async def sync(self) -> None:
        changes = self._inode.changes_made
        self._check_usable()
        await sleep(self._disk.sync_latency(), shielded=True)
        self._check_not_crashed()
        self._settle(changes)

    async def sync_aside(self) -> None:
        await self.sync()

    def sync_now(self) -> None:
        self._check_usable()
        self._settle(self._inode.changes_made)

    def _settle(self, changes: int) -> None:
        try:
            self._disk.call("sync", self._path)
        except OSError:
            if self._incarnation == self._disk.crashes:
                self._inode.settle(changes, lost=True)
            raise
        self._inode.settle(changes)
        self._disk.done("sync", self._path)

    @property
    def last_sync_ns(self) -> int:
        return 0

    def forget_cached(self) -> None:
        self._call("forget_cached")
        self._inode.forget_cached()

    def close(self) -> None:
        self._closed = True

    def _call(self, operation: str) -> None:
        self._check_usable()
        self._disk.call(operation, self._path)

    def _check_usable(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path}: the file is closed")
        self._check_not_crashed()

    def _check_not_crashed(self) -> None:
        if self._incarnation != self._disk.crashes:
            raise OSError(errno.EBADF, "the disk has crashed since the file was opened", self._path)


class SimulatedLock:
    """See `DirectoryLock`.  A crash of the disk releases it."""

    def __init__(self, disk: OwningDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._incarnation = disk.crashes

    def release(self) -> None:
        if self._incarnation == self._disk.crashes:
            self._disk.locked.discard(self._path)
