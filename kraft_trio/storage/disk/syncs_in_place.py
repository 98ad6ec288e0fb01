"""Decides whether the event loop itself waits for an fsync, instead of the kernel or a thread."""

from __future__ import annotations

from typing import Final

LIMIT_NS: Final = 500_000
"""The device is fast while its average sync takes less."""
_UNKNOWN_NS: Final = 10_000_000
"""What the average begins with, so that a process first sees some fast syncs elsewhere."""
_WEIGHT: Final = 8


class SyncsInPlace:
    """Whether the device has been fast lately, by the moving average of all syncs of the log.

    On a fast device, the changes of thread take longer than the fsync.  A device that becomes slow keeps the event loop
    for a few syncs, and one that hangs for a single one.  After that the syncs are made elsewhere, which also takes as
    long as the event loop is late.  It takes them up again when several in a row have been fast.  The simulator has
    none, because its time is virtual.
    """

    def __init__(self) -> None:
        self._average_ns = _UNKNOWN_NS

    def is_fast(self) -> bool:
        """Whether the event loop may wait for the next sync."""
        return self._average_ns < LIMIT_NS

    def note(self, taken_ns: int) -> None:
        """Note how long the device took for a sync, wherever that was waited for."""
        self._average_ns += (taken_ns - self._average_ns) // _WEIGHT
