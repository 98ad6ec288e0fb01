"""The page cache.  `forget_cached(descriptor)` lets go of a file's pages; raises OSError.

Without posix_fadvise it does nothing: what was written and synced is then read from memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

forget_cached: Callable[[int], object]

if sys.platform != "darwin" and sys.platform != "win32" and hasattr(os, "posix_fadvise"):

    def _forget(descriptor: int) -> None:
        # Given a range, Linux keeps the large folio that begins before it.  So this names the whole file.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    forget_cached = _forget
else:

    def _keep(_descriptor: int) -> None:
        pass

    forget_cached = _keep
