"""Keeps freed memory in the process for the next frame."""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 16 * 2**20
"""How much free memory glibc keeps at the top of the heap."""
HEAP_BYTES: Final = 8 * 2**20
"""Blocks of up to that size come from the heap."""


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 8 MiB.  Does nothing with another C library.

    By default it returns a freed frame of 1 MiB to the system, which gives and clears 256 new pages for the next one.
    That was a third of a follower's processor time under batches of this size.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
