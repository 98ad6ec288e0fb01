"""A disk for trials: it reads from another disk, and keeps what is written in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kraft_trio.storage.disk.created_files import FILE_MODE
from kraft_trio.storage.disk.disk import Buffer, DirectoryLock, Disk, DiskFile, base_name, parent


class PreviewFile:
    """An open file: the first `kept` bytes of the underlying file, if any, followed by what was written here."""

    def __init__(self, path: str, below: DiskFile | None, content: bytes = b"") -> None:
        self.path = path
        self._below = below
        self._kept = 0 if below is None else below.size()
        self._written = bytearray(content)

    def size(self) -> int:
        return self._kept + len(self._written)

    def read_at(self, position: int, size: int) -> bytes:
        size = min(size, self.size() - position)
        if size <= 0:
            return b""
        with self.view() as view:
            return bytes(view[position : position + size])

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read_at(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @contextmanager
    def view(self) -> Iterator[memoryview]:
        if self._below is None or not self._kept:
            yield memoryview(bytes(self._written))
            return
        with self._below.view() as below, below[: self._kept] as kept:
            if not self._written:
                yield kept
            else:
                yield memoryview(b"".join((kept, self._written)))

    def ensure_readable(self, position: int, size: int) -> int:
        if self._below is not None and position < self._kept:
            self._below.ensure_readable(position, min(size, self._kept - position))
        return min(self.size(), position + size)

    def append(self, data: Buffer, preallocate: int = 0) -> None:
        self._written += data

    def overwrite(self, position: int, data: Buffer) -> None:
        if not 0 <= position <= self.size() - len(data):
            raise ValueError(f"{self.path}: cannot overwrite {len(data)} bytes at {position}")
        with self.view() as view:
            written = bytearray(view)
        written[position : position + len(data)] = data
        self._kept, self._written = 0, written

    def truncate(self, size: int) -> None:
        if not 0 <= size <= self.size():
            raise ValueError(f"{self.path}: cannot truncate to {size} bytes, the file has {self.size()}")
        del self._written[max(0, size - self._kept) :]
        self._kept = min(self._kept, size)

    async def sync(self) -> None:
        """Does nothing: a preview is never durable."""

    async def sync_aside(self) -> None:
        """Does nothing: a preview is never durable."""

    def sync_now(self) -> None:
        """Does nothing: a preview is never durable."""

    @property
    def last_sync_ns(self) -> int:
        return 0

    def forget_cached(self) -> None:
        if self._below is not None:
            self._below.forget_cached()

    def close(self) -> None:
        if self._below is not None:
            self._below.close()


class PreviewDisk:
    """A Disk on top of another one, which it leaves unchanged except for locks.  Closing the other disk is the caller's
    job.

    Data written to an open file is visible through that file only, not to anyone who opens the path again.
    """

    def __init__(self, below: Disk) -> None:
        self._below = below
        self._replaced: dict[str, bytes | None] = {}
        """New content by path; None for a removed file."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = FILE_MODE) -> PreviewFile:
        if exclusive and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if create and not self.exists(path):
            self._replaced[path] = b""
        content = self._replaced.get(path)
        if content is not None:
            return PreviewFile(path, None, content)
        if path in self._replaced:
            raise _not_found(path)
        return PreviewFile(path, self._below.open(path))

    def open_to_read(self, path: str) -> DiskFile:
        return self.open(path) if path in self._replaced else self._below.open_to_read(path)

    def exists(self, path: str) -> bool:
        if path in self._replaced:
            return self._replaced[path] is not None
        return self._below.exists(path)

    def allocate(self, path: str, size: int) -> None:
        if not self.exists(path):
            self.replace_now(path, bytes(size))

    def may_keep_another_file(self) -> bool:
        return self._below.may_keep_another_file()

    def is_read_only(self, path: str) -> bool:
        return self._below.is_read_only(path)

    def free_bytes(self, path: str) -> int | None:
        return self._below.free_bytes(path)

    def modified_ms(self, path: str) -> int:
        return self._below.modified_ms(path)

    def list_directory(self, path: str) -> list[str]:
        path = path.rstrip("/")
        changed = {base_name(name): content for name, content in self._replaced.items() if parent(name) == path}
        kept = (name for name in self._below.list_directory(path) if name not in changed)
        return sorted((*kept, *(name for name, content in changed.items() if content is not None)))

    def make_directory(self, path: str) -> None:
        """Only check that the directory exists.  Raises FileNotFoundError."""
        self._below.list_directory(path)

    def read_bytes(self, path: str) -> bytes:
        if path not in self._replaced:
            return self._below.read_bytes(path)
        content = self._replaced[path]
        if content is None:
            raise _not_found(path)
        return content

    def rename(self, old_path: str, new_path: str) -> None:
        self._replaced[new_path] = self.read_bytes(old_path)
        self._replaced[old_path] = None

    def remove(self, path: str) -> None:
        if not self.exists(path):
            raise _not_found(path)
        self._replaced[path] = None

    async def remove_aside(self, path: str) -> None:
        self.remove(path)

    async def move(self, old_path: str, new_path: str) -> None:
        self.rename(old_path, new_path)

    def sync_directory(self, path: str) -> None:
        """Does nothing: a preview is never durable."""

    def replace_now(self, path: str, data: bytes, *, mode: int = FILE_MODE, durable: bool = True) -> None:
        self._replaced[path] = data

    async def replace(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        self._replaced[path] = data

    async def replace_aside(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        self._replaced[path] = data

    def lock(self, path: str) -> DirectoryLock:
        return self._below.lock(path)

    def close(self) -> None:
        """Does nothing: there are no threads to stop."""


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
