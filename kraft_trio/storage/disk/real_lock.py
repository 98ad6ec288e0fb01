"""The lock on a node's directory, which kraft-trio and Apache Kafka refuse each other, and the process that holds it.

Kafka's FileLock is Java's, a record lock (fcntl).  A flock is no record lock, and the kernel lets both be held at once,
so a node takes both.  Its record lock belongs to the open file and not to the process: it does not vanish because
something else in the process closes the same file.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

from kraft_trio.errors import AlreadyLockedError
from kraft_trio.forked import when_forked

_RECORD_LOCK: Final = struct.Struct("hhqqi")
"""Type, whence, start, length (0: to the end, also of a file that grows) and process id of a `struct flock`."""
_WHOLE_FILE: Final = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_SET_LOCK: Final[int] = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK)
_SHOWN_CHARACTERS: Final = 120


class RealLock:
    """The operating system releases it when the process ends in any way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        when_forked(self, RealLock.release)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_file(path: str, descriptor: int) -> RealLock | None:
    """Take both locks on the open file `path`, and own its descriptor; close it if that fails.

    None if the path is no longer that file: Kafka deletes the file of a lock that it releases.  Raises
    AlreadyLockedError, which names the process if the system tells it.
    """
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(descriptor, _SET_LOCK, _WHOLE_FILE)
        except (BlockingIOError, PermissionError):  # either, says POSIX, of a record lock that is held
            raise AlreadyLockedError(
                f"{path}: the lock is held already{_by_whom(descriptor)}; one node at a time may use its directory"
            ) from None
        if not _is_at(path, descriptor):
            os.close(descriptor)
            return None
    except BaseException:
        os.close(descriptor)
        raise
    return RealLock(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _by_whom(descriptor: int) -> str:
    process_id = _holder(descriptor)
    if process_id is None:
        return ""
    if process_id == os.getpid():
        return " by this process"
    command = command_of(process_id)
    return f" by process {process_id}{'' if command is None else f' ({command})'}"


def _holder(descriptor: int) -> int | None:
    """The process that holds a lock on the file; None if the system does not tell, as of another container's."""
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _WHOLE_FILE)
        kind, _, _, _, process_id = _RECORD_LOCK.unpack(found)
        if kind != fcntl.F_UNLCK and process_id > 0:
            return int(process_id)
        file = os.fstat(descriptor)
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            return _flock_holder(locks.read(), f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}")
    except (OSError, ValueError):
        return None


def _flock_holder(locks: str, file: str) -> int | None:
    """The process with the flock on a file, which Linux names by device and inode in /proc/locks."""
    for line in locks.splitlines():
        _, kind, *fields = line.split()
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:9995619 0 EOF, or with "->" before the kind for one that waits
        if kind == "FLOCK" and len(fields) == 6 and fields[3] == file and int(fields[2]) > 0:
            return int(fields[2])
    return None


def command_of(process_id: int) -> str | None:
    """What runs in a process, in a few words; None if the system does not tell."""
    try:
        with open(f"/proc/{process_id}/cmdline", "rb") as file:
            arguments = [os.fsdecode(part) for part in file.read().split(b"\0") if part]
    except OSError:
        return None
    return None if not arguments else command_text(arguments)


def command_text(arguments: list[str]) -> str:
    """A command line without its options and settings, and so without class paths and passwords."""
    program, *rest = arguments
    words = [os.path.basename(program)]
    is_value = False
    for word in rest:
        if not word.startswith("-") and not is_value and "=" not in word:
            words.append(word)
        is_value = word in _WITH_VALUE
    text = " ".join(words)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


_WITH_VALUE: Final = frozenset({"-cp", "-classpath", "--class-path", "--module-path", "-p", "--override"})
"""Options of Java and `kraft` whose value does not tell what runs."""
