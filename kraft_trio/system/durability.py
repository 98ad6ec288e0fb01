"""Durable writes: `sync_data` of a file's bytes, and `sync_all` of a file or directory with all that is noted of it.

Both take a descriptor, block until the device has the data, and raise OSError.

On macOS, fsync hands the data to the device but not to its medium: a loss of power may still lose it.  There both are
F_FULLFSYNC, which also empties the device's cache, and so takes milliseconds.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Final

UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY})
"""How a file system answers what it cannot do."""

sync_data: Callable[[int], object]
sync_all: Callable[[int], object]

if sys.platform == "darwin":
    import fcntl

    def full_sync(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

    sync_data = sync_all = full_sync
else:
    sync_all = os.fsync
    sync_data = getattr(os, "fdatasync", os.fsync)
