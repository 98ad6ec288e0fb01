"""A disk in memory, under virtual time, that loses unsynced data when it crashes.

The simulation can crash it, at any moment or at any call, and choose what it loses (see `Loss`).  Any call can fail
with an OSError; a failed fsync loses its data although later ones succeed.  The disk can also be full or slow, and its
bits can rot.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from functools import lru_cache

import trio

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.disk.failing_calls import CallPredicate, DiskFaults, Hook
from kraft_trio.simulation.disk.file import SimulatedFile, SimulatedLock
from kraft_trio.simulation.disk.inode import Inode, Loss
from kraft_trio.simulation.disk.names import Names
from kraft_trio.storage.disk.created_files import FILE_MODE
from kraft_trio.storage.disk.disk import base_name, parent


class SimulatedDisk:
    """See `Disk`.  One random source decides everything, so that a seed repeats a history.

    `sync_latency` returns the virtual seconds that the next `sync` or `replace` takes.  `now_ms` is the clock for the
    times of files.
    """

    def __init__(
        self,
        source: random.Random | None = None,
        *,
        sync_latency: Callable[[], float] = lambda: 0.0,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.random = source if source is not None else random.Random(0)
        self.sync_latency = sync_latency
        self.now_ms = now_ms
        self.capacity: int | None = None
        """The most bytes that all files together may have; None for any number.  Existing content stays."""
        self.read_only = False
        """Whether its file system says that it is mounted without the right to write.  Calls do not fail for it."""
        self.is_attached = True
        """Whether a process may use the disk.  If not, every call raises OSError: a dead process writes nothing
        more."""
        self.crashes = 0
        """How often the disk has crashed.  Files and locks from before are dead."""
        self.locked: set[str] = set()
        self._faults = DiskFaults()
        self._directories: dict[str, Names] = {"/": Names(), ".": Names()}

    # What the simulation does to the disk's user

    @property
    def hook(self) -> Hook | None:
        """Called before every call; it may raise, or crash the disk."""
        return self._faults.hook

    @hook.setter
    def hook(self, hook: Hook | None) -> None:
        self._faults.hook = hook

    @property
    def calls(self) -> int:
        """The number of calls so far, including failed ones."""
        return self._faults.calls

    def crash(self, lose: Loss = "some") -> None:
        """Lose power and, according to `lose`, unsynced data.  Open files and locks are dead."""
        if lose not in ("all", "some", "reordered"):
            raise ValueError(f'lose: {lose!r}, expected "all", "some" or "reordered"')
        self.kill()
        inodes: dict[Inode, None] = {}
        for path in sorted(self._directories):
            names = self._directories[path]
            names.crash(lose, self.random)
            inodes.update(dict.fromkeys(names.present.values()))
        for inode in inodes:
            inode.crash(lose, self.random)

    def crash_at(
        self,
        point: CallPredicate | int,
        *,
        after: bool = False,
        lose: Loss = "some",
        crash: Callable[[], object] | None = None,
    ) -> None:
        """Crash at the call with this number (the first is 1), or at the next one that the predicate accepts.

        The crash comes before the call takes effect, or `after` that but before its caller knows; read-only calls have
        no such moment.  The call raises OSError.  `crash` replaces `self.crash(lose)` if more than the disk loses
        power.
        """
        self._faults.crash_at(point, crash if crash is not None else lambda: self.crash(lose), after=after)

    def kill(self) -> None:
        """End the process that uses the disk without losing data.  Open files and locks are dead."""
        self.crashes += 1
        self.locked.clear()

    def fail(self, operation: str, *, name: str = "", code: int = errno.EIO, times: int = 1) -> None:
        """Make the next `times` calls of an operation fail, on files whose name ends with `name`.

        A failing "sync" loses the changes that it covers, although readers see them until the next crash.  A failing
        "append" leaves part of its bytes beyond the end that its writer knows.
        """
        self._faults.fail(operation, name, code, times)

    @property
    def has_faults(self) -> bool:
        """Whether a call may fail: a failure or crash point is pending, or there is a hook or a capacity."""
        return self._faults.is_pending or self.capacity is not None

    @property
    def has_failed(self) -> bool:
        """Whether a call has failed, as `fail` asked, since the last `forget_failures`."""
        return self._faults.has_failed

    def forget_failures(self) -> None:
        self._faults.has_failed = False

    def clear_faults(self) -> None:
        """Remove every hook, failure, crash point and capacity.  The disk stays as slow as it is."""
        self._faults.clear()
        self.capacity = None

    def damage(self, path: str, position: int, mask: int = 0x01) -> None:
        """Flip the bits of `mask` in one byte of a file, as a failing medium does without an error."""
        self._inode(path).damage(position, mask)

    def copy(self) -> SimulatedDisk:
        """A copy of the disk, with the same content durable, and without open files, locks and faults.

        Its random source continues from the present state, and its latencies come from the same function.
        """
        source = random.Random()
        source.setstate(self.random.getstate())
        other = SimulatedDisk(source, sync_latency=self.sync_latency, now_ms=self.now_ms)
        copies: dict[Inode, Inode] = {}
        other._directories = {path: names.copy(copies) for path, names in self._directories.items()}
        return other

    # The simulation looks at these.  They do not count as calls of the disk.

    def mode(self, path: str) -> int:
        """The permission bits with which a file was created."""
        return self._inode(path).mode

    def peek(self, path: str) -> bytes | None:
        """The content of a file as readers see it; None if there is no such file."""
        directory, name = _split(path)
        names = self._directories.get(directory)
        inode = None if names is None else names.present.get(name)
        return None if inode is None else bytes(inode.content)

    def peek_names(self, path: str) -> list[str]:
        """The names of the files in a directory, sorted; empty if there is no such directory."""
        names = self._directories.get(path)
        return [] if names is None else names.listing

    def durable_bytes(self, path: str) -> bytes | None:
        """The content after a crash that loses everything unsynced, including names; None if there is no such file."""
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

    def room(self) -> int | None:
        """The free space in bytes, or None without a limit."""
        if self.capacity is None:
            return None
        used = sum(len(inode.content) for names in self._directories.values() for inode in names.present.values())
        return max(0, self.capacity - used)

    # Disk

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, mode: int = FILE_MODE) -> SimulatedFile:
        self.call("open", path)
        names = self._names(parent(path))
        inode = names.present.get(base_name(path))
        if inode is not None and exclusive:
            raise FileExistsError(errno.EEXIST, "the file is there", path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            inode = Inode(mode)
            names.add(base_name(path), inode)
        self.done("open", path)
        return SimulatedFile(self, path, inode)

    def open_to_read(self, path: str) -> SimulatedFile:
        return self.open(path)

    def exists(self, path: str) -> bool:
        if path in self._directories:
            return True
        names = self._directories.get(parent(path))
        return names is not None and base_name(path) in names.present

    def allocate(self, path: str, size: int) -> None:
        self.call("allocate", path)
        names = self._names(parent(path))
        inode = names.present.get(base_name(path))
        if inode is None:
            inode = Inode()
            names.add(base_name(path), inode)
        room = self.room()
        missing = max(0, size - len(inode.content))
        inode.allocate(len(inode.content) + (missing if room is None else min(missing, room)))
        if room is not None and room < missing:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk", path)
        self.done("allocate", path)

    def may_keep_another_file(self) -> bool:
        return True

    def free_bytes(self, path: str) -> int | None:
        return self.room()

    def is_read_only(self, path: str) -> bool:
        return self.read_only

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.call("list_directory", path)
        below = [base_name(other) for other in self._directories if parent(other) == path and other not in ("/", ".")]
        return sorted([*self._names(path).present, *below])

    def make_directory(self, path: str) -> None:
        self.call("make_directory", path)
        missing = []
        directory = path
        while directory not in self._directories:
            if self.exists(directory):
                raise FileExistsError(errno.EEXIST, "a file is in the way", directory)
            missing.append(directory)
            directory = parent(directory)
        for directory in reversed(missing):
            self._directories[directory] = Names()
        self.done("make_directory", path)

    def read_bytes(self, path: str) -> bytes:
        self.call("read_bytes", path)
        return bytes(self._inode(path).content)

    def rename(self, old_path: str, new_path: str) -> None:
        self.call("rename", new_path)
        if parent(old_path) != parent(new_path):
            raise OSError(errno.EXDEV, "the simulated disk renames within one directory", new_path)
        self._inode(old_path)
        self._names(parent(new_path)).rename(base_name(old_path), base_name(new_path))
        self.done("rename", new_path)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self._inode(path)
        self._names(parent(path)).remove(base_name(path))
        self.done("remove", path)

    async def remove_aside(self, path: str) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        self.remove(path)

    async def move(self, old_path: str, new_path: str) -> None:
        crashes = self.crashes
        await sleep(self.sync_latency(), shielded=True)
        if crashes != self.crashes:
            raise OSError(errno.EBADF, "the disk crashed while the file was being moved", new_path)
        self.rename(old_path, new_path)
        self.sync_directory(parent(new_path))

    def sync_directory(self, path: str) -> None:
        self.call("sync_directory", path)
        self._names(path).sync()
        self.done("sync_directory", path)

    def replace_now(self, path: str, data: bytes, *, mode: int = FILE_MODE, durable: bool = True) -> None:
        temporary = f"{path}.tmp"
        crashes = self.crashes
        self.call("open", temporary)
        inode = Inode(mode)
        self._names(parent(path)).add(base_name(temporary), inode)
        self.done("open", temporary)
        file = SimulatedFile(self, temporary, inode)
        try:
            file.append(data)
            if durable:
                file.sync_now()
            self.rename(temporary, path)
        except OSError:
            if crashes == self.crashes:
                self._names(parent(path)).remove(base_name(temporary))
            raise
        if durable:
            self.sync_directory(parent(path))

    async def replace(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        crashes = self.crashes
        await sleep(self.sync_latency(), shielded=True)
        if crashes != self.crashes:
            raise OSError(errno.EBADF, "the disk crashed while the file was being replaced", path)
        self.replace_now(path, data, mode=mode)

    async def replace_aside(self, path: str, data: bytes, *, mode: int = FILE_MODE) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        self.replace_now(path, data, mode=mode, durable=False)

    def lock(self, path: str) -> SimulatedLock:
        self.call("lock", path)
        if path in self.locked:
            raise AlreadyLockedError(f"{path}: the lock is held already; one node at a time may use its directory")
        names = self._names(parent(path))
        if base_name(path) not in names.present:
            names.add(base_name(path), Inode())
        self.locked.add(path)
        self.done("lock", path)
        return SimulatedLock(self, path)

    def close(self) -> None:
        """Do nothing."""

    # Every call goes through here

    def call(self, operation: str, path: str) -> None:
        """A call begins.  Raises OSError if it is to fail, or if the disk crashes there."""
        if not self.is_attached:
            raise OSError(errno.EIO, f"the process that called {operation} is dead", path)
        crashes = self.crashes
        self._faults.call(operation, path)
        if crashes != self.crashes:
            raise OSError(errno.EBADF, f"the disk crashed at {operation}", path)

    def done(self, operation: str, path: str) -> None:
        """A call has taken effect.  Raises OSError if the disk crashes then."""
        crashes = self.crashes
        self._faults.done(operation, path)
        if crashes != self.crashes:
            raise OSError(errno.EBADF, f"the disk crashed after {operation}", path)

    def _names(self, path: str) -> Names:
        try:
            return self._directories[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path) from None

    def _inode(self, path: str) -> Inode:
        try:
            return self._names(parent(path)).present[base_name(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def _durable_inode(self, path: str) -> Inode | None:
        directory, name = _split(path)
        names = self._directories.get(directory)
        return None if names is None else names.durable.get(name)


@lru_cache(maxsize=1024)
def _split(path: str) -> tuple[str, str]:
    """Directory and name.  A run has few paths, and looks at them all the time."""
    return parent(path), base_name(path)
