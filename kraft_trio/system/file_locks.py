"""A lock on an open file that other processes and Java's FileLock are refused, while any descriptor of it is open.

Java takes a record lock (fcntl).  On Linux, a flock and a record lock can both be held at once, so we take both there.
The record lock belongs to the open file and not to the process: it does not vanish because something else in the
process closes the same file.  On macOS and FreeBSD, a flock and a record lock of another process refuse each other, so
the flock is enough; a record lock of this process would be refused.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from typing import Final

from kraft_trio.system.processes import flock_holder
from kraft_trio.system.support import no_windows

CANNOT_LOCK: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
"""How a file system answers that has no locks, such as NFS without its lock service."""

if sys.platform == "win32":
    raise no_windows("a node's files")

import fcntl  # noqa: E402  Windows has none

lock: Callable[[int], None]
"""Take the lock of an open file without waiting.  Raises BlockingIOError or PermissionError if another has it, and
other OSErrors."""
holder: Callable[[int], int | None]
"""The process that holds a lock on the open file; None if the system does not tell, as of another container's."""

_RECORD_LOCK: Final = struct.Struct("hhqqi")
"""Type, whence, start, length (0: to the end, also of a file that grows) and process id of Linux's struct flock."""
_WHOLE_FILE: Final = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_SET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None


def flock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_both(descriptor: int) -> None:
    flock(descriptor)
    assert _SET_LOCK is not None
    fcntl.fcntl(descriptor, _SET_LOCK, _WHOLE_FILE)


def _holder_of_either(descriptor: int) -> int | None:
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _WHOLE_FILE)
    except OSError:
        return None
    kind, _, _, _, process_id = _RECORD_LOCK.unpack(found)
    return int(process_id) if kind != fcntl.F_UNLCK and process_id > 0 else flock_holder(descriptor)


lock, holder = (flock, flock_holder) if _SET_LOCK is None else (_lock_both, _holder_of_either)
