"""The page cache.  `forget_cached(descriptor, position)` lets go of a file's pages from there on; raises OSError.

Without posix_fadvise it does nothing: what was written and synced is then read from memory.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable

forget_cached: Callable[[int, int], object]

if sys.platform != "darwin" and sys.platform != "win32" and hasattr(os, "posix_fadvise"):

    def _forget(descriptor: int, position: int) -> None:
        os.posix_fadvise(descriptor, position - position % mmap.PAGESIZE, 0, os.POSIX_FADV_DONTNEED)

    forget_cached = _forget
else:

    def _keep(_descriptor: int, _position: int) -> None:
        pass

    forget_cached = _keep
