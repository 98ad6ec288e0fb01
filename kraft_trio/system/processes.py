"""What the system tells of processes: their commands, open files and locks.  Linux tells it in /proc; others do not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("a node's files")

_PROC: Final = "/proc"
_DELETED: Final = " (deleted)"


def arguments_of(process_id: int) -> list[str]:
    """The command line of a process; empty if the system does not tell."""
    try:
        with open(f"{_PROC}/{process_id}/cmdline", "rb") as file:
            return [os.fsdecode(part) for part in file.read().split(b"\0") if part]
    except OSError:
        return []


def written_files() -> Iterator[tuple[int, str]]:
    """The other processes, and each file that one has open for writing.

    Linux tells those of this user, or all to root.  A file that was removed keeps its name.
    """
    for process_id in _other_processes():
        for descriptor, path in _open_files(process_id):
            if _writes(process_id, descriptor):
                yield process_id, path


def flock_holder(descriptor: int) -> int | None:
    """The process that holds a flock on the open file; None if there is none or the system does not tell."""
    try:
        file = os.fstat(descriptor)
        with open(f"{_PROC}/locks", encoding="ascii", errors="replace") as locks:
            return _flock_holder(locks.read(), f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}")
    except (OSError, ValueError):
        return None


def _flock_holder(locks: str, file: str) -> int | None:
    """Linux names a locked file by device and inode."""
    for line in locks.splitlines():
        _, kind, *fields = line.split()
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:9995619 0 EOF, or with "->" before the kind for one that waits
        if kind == "FLOCK" and len(fields) == 6 and fields[3] == file and int(fields[2]) > 0:
            return int(fields[2])
    return None


def _other_processes() -> Iterator[int]:
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit() and int(name) != os.getpid())


def _open_files(process_id: int) -> Iterator[tuple[str, str]]:
    folder = f"{_PROC}/{process_id}/fd"
    try:
        for descriptor in os.listdir(folder):
            yield descriptor, os.readlink(f"{folder}/{descriptor}").removesuffix(_DELETED)
    except OSError:  # it has ended, or is another user's
        return


def _writes(process_id: int, descriptor: str) -> bool:
    try:
        with open(f"{_PROC}/{process_id}/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(maxsplit=1) for line in file if line.startswith("flags:"))
    except OSError:
        return False
    return int(fields.get("flags:", "0"), 8) & os.O_ACCMODE != os.O_RDONLY
