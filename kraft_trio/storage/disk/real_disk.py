"""The disk of the operating system: pread, pwrite, syncs, rename, locks."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from kraft_trio.forked import refuse_in_child, when_forked
from kraft_trio.storage.disk.created_files import DIRECTORY_MODE, FILE_MODE
from kraft_trio.storage.disk.disk import Buffer, parent
from kraft_trio.storage.disk.disk_threads import DiskThreads
from kraft_trio.storage.disk.failures import is_disk_full
from kraft_trio.storage.disk.file_syncs import FileSyncs, sync_entirely
from kraft_trio.storage.disk.real_lock import RealLock, lock_file
from kraft_trio.storage.disk.spare_descriptors import LEFT_FOR_CONNECTIONS, SpareDescriptors
from kraft_trio.system import descriptors
from kraft_trio.system.page_cache import forget_cached
from kraft_trio.system.reserved_space import reserve
from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("a node's files")

_MAX_WRITE_BYTES = 1 << 30
"""Linux writes at most 2 GiB in one call."""

_READ_AHEAD_BYTES = 16 * 1024
"""Useful for a log of small batches.  In a log of large ones, only the headers are read."""

_MAX_SCRATCH_BYTES = 1024 * 1024


class RealFile:
    """An open file of the operating system; see `DiskFile`."""

    def __init__(self, path: str, descriptor: int, threads: DiskThreads) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._end = self._size
        """Where the file ends for the operating system: behind the zeros."""
        self._syncs = FileSyncs(path, descriptor, threads)
        when_forked(self, RealFile._close_in_child)

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        self._check_open()
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        try:
            data = os.pread(self._descriptor, size, position)
            if len(data) == size:
                return data
            parts = [data]
            missing = size - len(data)
            while missing and data:
                data = os.pread(self._descriptor, missing, position + size - missing)
                parts.append(data)
                missing -= len(data)
        except OSError as error:
            raise self._named(error) from error
        return b"".join(parts)

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._check_open()
        size = max(0, min(len(buffer), self._size - position))
        read = 0
        try:
            while read < size and (count := os.preadv(self._descriptor, [buffer[read:size]], position + read)):
                read += count
        except OSError as error:
            raise self._named(error) from error
        return read

    @contextmanager
    def view(self) -> Iterator[memoryview]:
        self._check_open()
        if not self._size:
            yield memoryview(b"")
            return
        with mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            yield view

    def ensure_readable(self, position: int, size: int) -> int:
        self._check_open()
        end = min(self._size, position + max(size, _READ_AHEAD_BYTES))
        scratch = memoryview(bytearray(max(0, min(end - position, _MAX_SCRATCH_BYTES))))
        while position < end:
            try:
                count = os.preadv(self._descriptor, [scratch[: end - position]], position)
            except OSError as error:
                raise self._named(error) from error
            if not count:
                break
            position += count
        return position

    def append(self, data: Buffer, preallocate: int = 0) -> None:
        self._check_open()
        size = len(data)
        try:
            if preallocate and self._size + size > self._end:
                written = self._write_with_zeros(data, preallocate)
            else:
                written = os.pwrite(self._descriptor, data, self._size) if size <= _MAX_WRITE_BYTES else 0
            if written < size:
                with memoryview(data) as view:
                    while written < size:
                        part = view[written : written + _MAX_WRITE_BYTES]
                        written += os.pwrite(self._descriptor, part, self._size + written)
        except OSError as error:
            raise self._named(error) from error
        self._end = max(self._end, self._size + written)
        self._size += size

    def _write_with_zeros(self, data: Buffer, count: int) -> int:
        """Return how many bytes were written, zeros included; 0 without room for any of them."""
        try:
            return os.pwritev(self._descriptor, (data, bytes(count)), self._size)
        except OSError as error:
            if not is_disk_full(error):
                raise
            return 0

    def overwrite(self, position: int, data: Buffer) -> None:
        self._check_open()
        size = len(data)
        if not 0 <= position <= self._size - size:
            raise ValueError(f"{self._path}: cannot overwrite {size} bytes at {position}, the file has {self._size}")
        try:
            written = os.pwrite(self._descriptor, data, position)
            if written != size:
                with memoryview(data) as view:
                    while written < size:
                        written += os.pwrite(self._descriptor, view[written:], position + written)
        except OSError as error:
            raise self._named(error) from error

    def truncate(self, size: int) -> None:
        self._check_open()
        if not 0 <= size <= self._size:
            raise ValueError(f"{self._path}: cannot truncate to {size} bytes, the file has {self._size}")
        os.ftruncate(self._descriptor, size)
        self._size = self._end = size

    async def sync(self) -> None:
        self._check_open()
        await self._syncs.sync()

    async def sync_aside(self) -> None:
        self._check_open()
        await self._syncs.sync_aside()

    def sync_now(self) -> None:
        self._check_open()
        self._syncs.sync_now()

    @property
    def last_sync_ns(self) -> int:
        return self._syncs.last_ns

    def forget_cached(self) -> None:
        self._check_open()
        forget_cached(self._descriptor)

    def close(self) -> None:
        self._syncs.close()

    def _close_in_child(self) -> None:
        self._syncs.close_in_child()

    def _named(self, error: OSError) -> OSError:
        """The same error with the file's path, which calls on a descriptor leave out."""
        return OSError(error.errno, error.strerror, self._path)

    def _check_open(self) -> None:
        if self._syncs.is_closed:
            raise ValueError(f"{self._path}: the file is closed")


class RealDisk:
    """The file system of this machine; see `Disk`.  Owns one thread for fsync, which `close` ends."""

    def __init__(self) -> None:
        self._threads = DiskThreads()
        self._spare = SpareDescriptors()
        self._is_in_child = False
        when_forked(self, RealDisk._lose)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = FILE_MODE) -> RealFile:
        self._refuse_in_child(path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
        return RealFile(path, self._spare.open_own(path, flags, mode), self._threads)

    def open_to_read(self, path: str) -> RealFile:
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
        descriptor = self._spare.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return RealFile(path, descriptor, self._threads)

    def exists(self, path: str) -> bool:
        try:
            os.lstat(path)
        except PermissionError:
            raise
        except (OSError, ValueError):
            return False
        return True

    def allocate(self, path: str, size: int) -> None:
        self._refuse_in_child(path)
        descriptor = self._spare.open_own(path, os.O_RDWR | os.O_CREAT)
        try:
            reserve(descriptor, size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int | None:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def is_read_only(self, path: str) -> bool:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)

    def may_keep_another_file(self) -> bool:
        return descriptors.left() > LEFT_FOR_CONNECTIONS

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        self._refuse_in_child(path)
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = parent(path)
        for directory in reversed(missing):
            os.mkdir(directory, DIRECTORY_MODE)
            self.sync_directory(parent(directory))

    def read_bytes(self, path: str) -> bytes:
        with open(self._spare.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
            return file.read()

    def rename(self, old_path: str, new_path: str) -> None:
        self._refuse_in_child(old_path)
        os.replace(old_path, new_path)

    def remove(self, path: str) -> None:
        self._refuse_in_child(path)
        os.remove(path)

    async def remove_aside(self, path: str) -> None:
        self._refuse_in_child(path)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.remove, path, limiter=self._threads.names)

    async def move(self, old_path: str, new_path: str) -> None:
        self._refuse_in_child(old_path)

        def move_now() -> None:
            self.rename(old_path, new_path)
            self.sync_directory(parent(new_path))

        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(move_now, limiter=self._threads.names)

    def sync_directory(self, path: str) -> None:
        descriptor = self._spare.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_entirely(descriptor, path)
        finally:
            os.close(descriptor)

    def replace_now(self, path: str, data: bytes, *, mode: int = FILE_MODE, durable: bool = True) -> None:
        self._refuse_in_child(path)
        temporary = f"{path}.tmp"
        try:
            os.remove(temporary)
        except FileNotFoundError:
            pass
        descriptor = self._spare.open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                with memoryview(data) as view:
                    written = 0
                    while written < len(data):
                        written += file.write(view[written:])
                if durable:
                    sync_entirely(descriptor, path)
            os.replace(temporary, path)
        except OSError:
            self._remove_leftover(temporary)
            raise
        if durable:
            self.sync_directory(parent(path))

    def _remove_leftover(self, path: str) -> None:
        try:
            os.remove(path)
        except OSError:
            pass

    async def replace(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        self._refuse_in_child(path)
        # Each replacement forms a group of its own, so that two contents of one file never share an fsync.
        await self._threads.fsync.run(object(), lambda: self.replace_now(path, data, mode=mode))

    async def replace_aside(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        self._refuse_in_child(path)
        # Keep it off the thread that does the fsyncs.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(
                lambda: self.replace_now(path, data, mode=mode, durable=False), limiter=self._threads.small_files
            )

    def lock(self, path: str) -> RealLock:
        self._refuse_in_child(path)
        while True:
            locked = lock_file(path, self._spare.open_own(path, os.O_RDWR | os.O_CREAT))
            if locked is not None:
                return locked

    def close(self) -> None:
        if not self._is_in_child:
            self._threads.close()
            self._spare.close()

    def _lose(self) -> None:
        self._is_in_child = True

    def _refuse_in_child(self, path: str) -> None:
        """A node whose process was forked has its threads and its lock in the parent only."""
        if self._is_in_child:
            refuse_in_child(path)
