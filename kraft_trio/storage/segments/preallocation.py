"""The zeros behind the last batch of the active segment.

See docs/explanation/decisions.md#the-active-segment-is-preallocated.
An append that overwrites zeros leaves the file's size and blocks as they are, so syncing it takes one flush of the
device.  An append that makes the file grow takes two: of the data, and of the file system's journal.

They are cut when the segment is sealed and when the log is closed.  After a crash, opening the log cuts them.
"""

from __future__ import annotations

from typing import Final

DEFAULT_PREALLOCATE_BYTES: Final = 256 * 1024
MAX_PREALLOCATE_BYTES: Final = 1024 * 1024
"""No file ends in more of them."""

LARGEST_APPEND_BYTES: Final = 64 * 1024
"""Larger appends need few syncs for their bytes, and zeros would double the bytes."""

_WINDOW_BYTES: Final = 1024 * 1024


def zeros_behind(end: int, append_bytes: int, *, preallocate_bytes: int, segment_bytes: int) -> int:
    """Return how many zeros to write behind an append that ends at `end` (exclusive), should the file grow for it.

    The file then ends at a multiple of `preallocate_bytes`, 0 for none, but not beyond `segment_bytes`.
    """
    if not preallocate_bytes or append_bytes > LARGEST_APPEND_BYTES:
        return 0
    return max(0, min(end + -end % preallocate_bytes, segment_bytes) - end)


def is_preallocated(view: memoryview, position: int) -> bool:
    """Whether all bytes from `position` on are zeros, no more than a node preallocates.  No batch looks so."""
    return len(view) - position <= MAX_PREALLOCATE_BYTES and has_only_zeros(view, position)


def has_only_zeros(view: memoryview, position: int) -> bool:
    """Whether all bytes from `position` on are zeros."""
    for start in range(position, len(view), _WINDOW_BYTES):
        part = bytes(view[start : start + _WINDOW_BYTES])
        if part.count(0) != len(part):
            return False
    return True
