"""Blocks of a file system for a file, before anything is written there: posix_fallocate, else zeros.

Zeros take blocks on every file system that does not compress them.
"""

from __future__ import annotations

import os
import sys

from kraft_trio.system.durability import UNSUPPORTED
from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("a node's files")


def reserve(descriptor: int, size: int) -> None:
    """Make the file at least `size` bytes long, with blocks for what is new.  Raises OSError."""
    if sys.platform != "darwin" and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:  # ZFS, for example, cannot do it
                raise
    _append_zeros(descriptor, size)


def _append_zeros(descriptor: int, size: int) -> None:
    end = os.fstat(descriptor).st_size
    zeros = memoryview(bytes(max(0, size - end)))
    written = 0
    while written < len(zeros):
        written += os.pwrite(descriptor, zeros[written:], end + written)
