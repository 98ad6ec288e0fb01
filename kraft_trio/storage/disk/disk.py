"""The interface of a disk.  The real and the simulated disk implement it.

Every fake passes the same contract tests as the real thing (tests/storage/test_disk_contract.py).  Paths are text with
"/" between their parts.  All calls raise OSError as the operating system would; nothing here is retried.

Blocking: appends, reads and the calls named `..._now` block the event loop while the page cache works, or while the
device does if they say so.  `sync` and `replace` wait for the device without blocking the loop.

Cancellation: an fsync cannot be cancelled.  So `DiskFile.sync` and `Disk.replace` always wait until it ends, and then
return (or raise OSError) as usual.  The caller is cancelled at its next checkpoint.  When a nursery has ended, no sync
of its tasks is running (rule R1).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Protocol

from kraft_trio.storage.disk.created_files import FILE_MODE

Buffer = bytes | bytearray | memoryview

SECTOR_BYTES: Final = 512
"""The unit that a device writes whole or not at all, in any order.  A page of 4 KiB has eight, so it may be torn."""


class DiskFile(Protocol):
    """An open file.  It can be read anywhere, appended to and overwritten, by one writer.  Its opener closes it."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Bytes in the file, unsynced ones included.  When it is opened, all zeros at its end count."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Like `read_at`, into a buffer; return the number of bytes read."""
        ...

    def view(self) -> AbstractContextManager[memoryview]:
        """Map the whole file to read it.  Leave the context before the file is written to or closed.

        Read only what `ensure_readable` covers.  A byte that the device cannot read would end the process by a signal.
        """
        ...

    def ensure_readable(self, position: int, size: int) -> int:
        """Make the device read at least `size` bytes from `position`; return the end (exclusive) of what it read.

        That is less only at the end of the file.  Raises OSError.
        """
        ...

    def append(self, data: Buffer, preallocate: int = 0) -> None:
        """Write all of `data` at the end.  Raises OSError, after which the bytes beyond `size()` are undefined.

        If the file has to grow for it, let it grow by up to `preallocate` bytes of zeros more, which `size()` does not
        count.  Later appends overwrite them, which is synced faster than a new size.  `truncate` cuts them.
        """
        ...

    def overwrite(self, position: int, data: Buffer) -> None:
        """Overwrite existing bytes from `position` on with all of `data`.  The file does not grow.

        Until the next sync, a crash may leave any part of it.  Raises OSError; any part of it may then be written.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, which must not exceed its length."""
        ...

    async def sync(self) -> None:
        """Make durable what was appended, overwritten or truncated before the call.

        Shielded: see the module's docstring.
        """
        ...

    async def sync_aside(self) -> None:
        """Like `sync`, without delaying other syncs: for large files that no task waits for.  Shielded, too."""
        ...

    def sync_now(self) -> None:
        """Like `sync`, but block the event loop until the device has answered."""
        ...

    @property
    def last_sync_ns(self) -> int:
        """How long the last sync took, in nanoseconds.  0 if nobody measures that.

        It counts how late the event loop was told of the end, too.
        """
        ...

    def forget_cached(self) -> None:
        """Let reads come from the device.

        After a failed fsync, the page cache may call bytes clean that never reached the device.  A later process would
        read them, and a later fsync would claim them durable.  Call this after a successful `sync_now`.
        """
        ...

    def close(self) -> None:
        """Close the file without syncing.  Does not wait: a running sync still completes."""
        ...


class DirectoryLock(Protocol):
    """A lock that is held until released, or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A tree of directories and files."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = FILE_MODE) -> DiskFile:
        """Open an existing file, or with `create` make it when absent; a new name is durable after `sync_directory`.

        `mode` is that of a file that is made.  Raises FileNotFoundError; OSError for a symbolic link, and with
        `exclusive` FileExistsError for a file that is there.
        """
        ...

    def open_to_read(self, path: str) -> DiskFile:
        """Open an existing file that is not going to change, which may be read-only.

        Raises FileNotFoundError, OSError for what is no file: a directory, a pipe.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether the name exists, even as a dangling symbolic link.

        Raises PermissionError if its directory may not be entered: a node's data must not be taken for gone then.
        """
        ...

    def allocate(self, path: str, size: int) -> None:
        """Allocate at least `size` bytes of blocks to a file, which is created if absent.

        Nothing of it is durable.  Blocks.  Raises OSError, usually ENOSPC; the file may then have part of the blocks.
        """
        ...

    def free_bytes(self, path: str) -> int | None:
        """Return the bytes left for this process on a directory's file system; None if unknown or unlimited."""
        ...

    def is_read_only(self, path: str) -> bool:
        """Whether a directory's file system is mounted without the right to write, as after an error of the disk."""
        ...

    def may_keep_another_file(self) -> bool:
        """Whether another file may stay open for long.  If not, the process needs its descriptors for other things."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written to, by this machine's clock, in milliseconds since 1970.  A rename keeps it.

        Raises FileNotFoundError.
        """
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted.  Raises FileNotFoundError."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and the missing ones above it, durably; nothing happens if it exists."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def rename(self, old_path: str, new_path: str) -> None:
        """Replaces a file at `new_path` atomically.  Durable after `sync_directory`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; durable after `sync_directory`."""
        ...

    async def remove_aside(self, path: str) -> None:
        """Like `remove`, off the event loop: to give up the blocks of a large file takes long.  Shielded."""
        ...

    async def move(self, old_path: str, new_path: str) -> None:
        """Rename within a directory, atomically and durably, off the event loop.  Shielded: see the module."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable.  Blocks until the device has answered."""
        ...

    def replace_now(self, path: str, data: bytes, *, mode: int = FILE_MODE, durable: bool = True) -> None:
        """Give a file new content atomically: a temporary file, fsync, rename, fsync of the directory.

        Blocks until the device has answered.  Without `durable` neither fsync is made: for derived data only, which
        its reader checks.
        """
        ...

    async def replace(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        """Like `replace_now`, off the event loop.  Shielded: see the module's docstring."""
        ...

    async def replace_aside(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        """Like `replace_now` without `durable`, off the event loop and in no sync's way.  Shielded, as `replace` is."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock that is the file `path`, making it when absent.  Raises AlreadyLockedError."""
        ...

    def close(self) -> None:
        """Stop the disk's own threads.  Callers close the files that they opened."""
        ...


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def parent(path: str) -> str:
    """The directory that a path is in."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def base_name(path: str) -> str:
    return path.rpartition("/")[2]
