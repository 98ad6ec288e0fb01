"""A disk in memory under virtual time, which loses what was not synced when it crashes.

What it can do to its user: lose all or part of the unsynced bytes of a file, the last write torn; undo what was done to
the names of a directory since its last `sync_directory`, newest first; fail any call with an OSError, a failed fsync
losing what it should have made durable although later ones succeed; call a hook before every call, which may raise, or
crash the disk there.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.storage.disk import Buffer, base_name, parent
from kraft_trio.storage.simulated_file import Inode

Hook = Callable[[str, str], None]
"""Called before every call with its name (as in `Disk` and `DiskFile`) and path; what it raises, the call raises."""


@attrs.define
class _Failure:
    operation: str
    name: str
    error: OSError
    times: int


@attrs.define(eq=False)
class _Directory:
    """The names in a directory, as they are and as they would be after a crash with nothing else synced."""

    names: dict[str, Inode] = attrs.field(factory=dict)
    durable: dict[str, Inode] = attrs.field(factory=dict)
    unsynced: list[dict[str, Inode]] = attrs.field(factory=list)
    """The names after each change since the last sync, oldest first."""

    def changed(self) -> None:
        self.unsynced.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.unsynced.clear()

    def crash(self, source: random.Random | None) -> None:
        kept = source.randint(0, len(self.unsynced)) if source is not None else 0
        if kept:
            self.durable = self.unsynced[kept - 1]
        self.names = dict(self.durable)
        self.unsynced.clear()


class SimulatedFile:
    """An open file of the simulated disk; see `DiskFile`.  A crash of the disk closes it."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._incarnation = disk.crashes
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._inode.content)

    def read_at(self, position: int, size: int) -> bytes:
        self._call("read_at")
        return bytes(self._inode.content[position : position + max(0, size)])

    @contextmanager
    def view(self) -> Iterator[memoryview]:
        self._call("view")
        with memoryview(bytes(self._inode.content)) as view:
            yield view

    def append(self, data: Buffer) -> None:
        self._call("append")
        self._inode.append(data)

    def truncate(self, size: int) -> None:
        if not 0 <= size <= self.size():
            raise ValueError(f"{self._path}: cannot truncate to {size} bytes, the file has {self.size()}")
        self._call("truncate")
        self._inode.truncate(size)

    async def sync(self) -> None:
        changes = self._inode.changes_made
        self._check_usable()
        with trio.CancelScope(shield=True):
            await trio.sleep(self._disk.sync_latency())
        self._check_not_crashed()
        self._settle(changes)

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

    def forget_cached(self, position: int) -> None:
        self._call("forget_cached")
        self._inode.forget_cached(position)

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
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._incarnation = disk.crashes

    def release(self) -> None:
        if self._incarnation == self._disk.crashes:
            self._disk.locked.discard(self._path)


class SimulatedDisk:
    """See `Disk`.  One random source decides everything, so that one seed replays one history.

    `sync_latency` gives the seconds of virtual time that the next `sync` or `replace` takes.
    """

    def __init__(self, source: random.Random | None = None, *, sync_latency: Callable[[], float] = lambda: 0.0) -> None:
        self.random = source if source is not None else random.Random(0)
        self.sync_latency = sync_latency
        self.hook: Hook | None = None
        self.crashes = 0
        """How often the disk has crashed; files and locks of an earlier count are dead."""
        self.locked: set[str] = set()
        self._directories: dict[str, _Directory] = {"/": _Directory(), ".": _Directory()}
        self._failures: list[_Failure] = []

    # What the simulation does to its user

    def crash(self, *, lose_everything_unsynced: bool = False, lose: str = "some") -> None:
        """Lose power: a random part of what was not synced is lost, or all of it; open files and locks are dead."""
        self.crashes += 1
        self.locked.clear()
        source = None if lose_everything_unsynced or lose == "all" else self.random
        inodes: dict[int, Inode] = {}
        for path in sorted(self._directories):
            directory = self._directories[path]
            directory.crash(source)
            inodes.update((id(inode), inode) for inode in directory.names.values())
        for inode in inodes.values():
            inode.crash(source)

    def kill(self) -> None:
        """End the process that uses the disk, and lose nothing: open files and locks are dead."""
        self.crashes += 1
        self.locked.clear()

    def fail(self, operation: str, *, name: str = "", code: int = errno.EIO, times: int = 1) -> None:
        """Let the next `times` calls of an operation fail, those on files whose name ends with `name`.

        A failing "sync" loses the changes it should have made durable; readers see them until the next crash.
        """
        self._failures.append(_Failure(operation, name, OSError(code, f"injected: {errno.errorcode[code]}"), times))

    def damage(self, path: str, position: int, mask: int = 0x01) -> None:
        """Flip the bits of `mask` in one byte of a file, as a failing medium does: without any call failing."""
        self._inode(path).damage(position, mask)

    def mode(self, path: str) -> int:
        """The permission bits a file was made with."""
        return self._inode(path).mode

    # What the simulation looks at: no call is counted, no hook is called

    def peek(self, path: str) -> bytes | None:
        """The content as readers see it; None where there is no such file."""
        directory = self._directories.get(parent(path))
        inode = None if directory is None else directory.names.get(base_name(path))
        return None if inode is None else bytes(inode.content)

    def peek_names(self, path: str) -> list[str]:
        """The names of the files in that directory, ascending; none where there is no such directory."""
        directory = self._directories.get(path)
        return [] if directory is None else sorted(directory.names)

    def durable_bytes(self, path: str) -> bytes | None:
        """What would be read after a crash that loses everything unsynced; None where there would be no such file."""
        inode = self._durable_inode(path)
        return None if inode is None else bytes(inode.durable)

    def durable_slice(self, path: str, start: int, size: int) -> bytes | None:
        """Up to `size` bytes from `start` of `durable_bytes`."""
        inode = self._durable_inode(path)
        return None if inode is None else bytes(inode.durable[start : start + size])

    def durable_size(self, path: str) -> int | None:
        """The length of `durable_bytes`."""
        inode = self._durable_inode(path)
        return None if inode is None else len(inode.durable)

    def _durable_inode(self, path: str) -> Inode | None:
        directory = self._directories.get(parent(path))
        return None if directory is None else directory.durable.get(base_name(path))

    def clear_faults(self) -> None:
        """No call fails any more, and no hook is called."""
        self.hook = None
        self._failures.clear()

    # Disk

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.call("open", path)
        directory = self._directory(parent(path))
        inode = directory.names.get(base_name(path))
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = Inode()
            directory.names[base_name(path)] = inode
            directory.changed()
        return SimulatedFile(self, path, inode)

    def exists(self, path: str) -> bool:
        if path in self._directories:
            return True
        directory = self._directories.get(parent(path))
        return directory is not None and base_name(path) in directory.names

    def list_directory(self, path: str) -> list[str]:
        self.call("list_directory", path)
        below = [base_name(other) for other in self._directories if parent(other) == path and other not in ("/", ".")]
        return sorted([*self._directory(path).names, *below])

    def make_directory(self, path: str) -> None:
        self.call("make_directory", path)
        while path not in self._directories:
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, "a file is in the way", path)
            self._directories[path] = _Directory()
            path = parent(path)

    def read_bytes(self, path: str) -> bytes:
        self.call("read_bytes", path)
        return bytes(self._inode(path).content)

    def rename(self, old_path: str, new_path: str) -> None:
        self.call("rename", new_path)
        if parent(old_path) != parent(new_path):
            raise OSError(errno.EXDEV, "the simulated disk renames within one directory", new_path)
        inode = self._inode(old_path)
        directory = self._directory(parent(new_path))
        del directory.names[base_name(old_path)]
        directory.names[base_name(new_path)] = inode
        directory.changed()

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self._inode(path)
        directory = self._directory(parent(path))
        del directory.names[base_name(path)]
        directory.changed()

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path)
        self._directory(path).sync()

    def replace_now(self, path: str, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
        temporary = f"{path}.tmp"
        directory = self._directory(parent(path))
        inode = Inode(mode)
        directory.names[base_name(temporary)] = inode
        directory.changed()
        self.call("append", temporary)
        inode.append(data)
        if durable:
            self.call("sync", temporary)
            inode.settle(inode.changes_made)
        self.rename(temporary, path)
        if durable:
            self.sync_directory(parent(path))

    async def replace(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        incarnation = self.crashes
        with trio.CancelScope(shield=True):
            await trio.sleep(self.sync_latency())
        if incarnation != self.crashes:
            raise OSError(errno.EBADF, "the disk crashed while the file was being replaced", path)
        self.replace_now(path, data, mode=mode)

    def lock(self, path: str) -> SimulatedLock:
        self.call("lock", path)
        if path in self.locked:
            raise AlreadyLockedError(
                f"{path}: the lock is held by another process; one node at a time may use its directory"
            )
        self.open(path, create=True).close()
        self.locked.add(path)
        return SimulatedLock(self, path)

    def close(self) -> None:
        """Nothing to end."""

    def call(self, operation: str, path: str) -> None:
        """Every call passes here first: the hook, then the failures asked for."""
        if self.hook is not None:
            crashes = self.crashes
            self.hook(operation, path)
            if crashes != self.crashes:
                raise OSError(errno.EBADF, f"the disk crashed at {operation}", path)
        for failure in self._failures:
            if failure.operation == operation and path.endswith(failure.name):
                failure.times -= 1
                if not failure.times:
                    self._failures.remove(failure)
                raise failure.error

    def _directory(self, path: str) -> _Directory:
        try:
            return self._directories[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path) from None

    def _inode(self, path: str) -> Inode:
        try:
            return self._directory(parent(path)).names[base_name(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None
