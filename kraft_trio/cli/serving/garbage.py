"""Keeps the garbage collector from traversing what lasts again and again: modules, connections, a large state."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

_THRESHOLD: Final = 2500
"""New objects, net, that start a collection.  Python's default of 700 is less than 64 requests in flight need.

A collection also destroys what it finds: of 10,000 watches that end, it held up the loop for 80 ms at 10,000.
"""
_MIDDLE_THRESHOLD: Final = 4
"""After so many collections of the youngest generation, the next one collects the middle one, too."""
_FULL_THRESHOLD: Final = 1
"""The same of the middle and the oldest.  A full one traverses the 25,000 objects since the last."""
_OLDEST_GENERATION: Final = 2
_COMPLETE_EVERY_S: Final = 3600.0
"""How often a collection may be complete."""
_GROWTH: Final = 1.25
"""How much more objects there must be than after the last complete one."""
_MOST_OBJECTS: Final = 4_000_000
"""With more, a collection is never complete: at 0.2 s for a million, it could cost a leader its epoch."""


class Freezer:
    """Leaves out of later collections what a full one has found to be in use.  So it seldom has much to traverse.

    Requests leave no reference cycles behind, but a connection that was open during a full collection leaves a few KiB
    when it ends.  Therefore a collection is complete once the objects have grown by a quarter, at most once an hour.
    It stops the loop for 10 ms with 100,000 objects, and for 0.2 s with a million.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic, most_objects: int = _MOST_OBJECTS) -> None:
        self._now_s = now_s
        self._most_objects = most_objects
        self._looked_s = now_s()
        """When it was last looked whether to collect completely."""
        self._count = gc.get_freeze_count()
        self._is_complete = False

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Be one of `gc.callbacks`."""
        if phase != "stop" or info["generation"] != _OLDEST_GENERATION:
            return
        gc.freeze()
        now_s = self._now_s()
        if self._is_complete:
            self._is_complete, self._count, self._looked_s = False, gc.get_freeze_count(), now_s
        elif now_s >= self._looked_s + _COMPLETE_EVERY_S:
            # To count takes as long as to traverse, so it is done once an hour.
            self._looked_s = now_s
            if _GROWTH * self._count < gc.get_freeze_count() <= self._most_objects:
                self._is_complete = True
                gc.unfreeze()  # The next full collection traverses all.


def tune_garbage_collector() -> None:
    """Collect now, and seldom from now on.

    Reference counting frees what a request leaves behind; tests/actors/network/test_garbage.py holds that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_THRESHOLD, _MIDDLE_THRESHOLD, _FULL_THRESHOLD)
    gc.callbacks.append(Freezer())
