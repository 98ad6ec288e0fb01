"""Decides whether the event loop itself waits for an fsync, instead of a thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kraft_trio.storage.disk.disk import DiskFile

FOLLOWER_LIMIT_NS: Final = 1_000_000
"""A follower waits while the average sync takes less: it has nothing else to do before its records are durable."""
LEADER_LIMIT_NS: Final = 250_000
"""A leader waits while the average sync takes less: then no follower has answered yet."""
MAX_BYTES: Final = 64 * 1024
"""The most that is synced in place."""
PAUSE: Final = 64
"""How many syncs are left to the thread before the device is tried again."""
_WEIGHT: Final = 8


class SyncsInPlace:
    """Whether the device has been fast lately, by the moving average of the syncs that the event loop has waited for.

    On a fast device, the changes of thread take longer than the fsync.  A slow one keeps the event loop for one sync in
    about 20, and one that hangs for a single sync.  The simulator has none, because its time is virtual.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._average_ns = 0
        self._left_to_thread = 0
        """How many in a row."""

    def is_faster_than(self, limit_ns: int) -> bool:
        """Whether to make the next sync by `sync`, at such a limit for the average.  Counts those that it refuses."""
        if self._average_ns < limit_ns:
            return True
        if self._left_to_thread < PAUSE:
            self._left_to_thread += 1
            return False
        self._left_to_thread = 0
        self._average_ns = limit_ns // 2
        return True

    def sync(self, file: DiskFile) -> None:
        """Sync a file, and block until the device has answered.  Raises OSError."""
        began_ns = self._clock_ns()
        file.sync_now()
        self._average_ns += (self._clock_ns() - began_ns - self._average_ns) // _WEIGHT
