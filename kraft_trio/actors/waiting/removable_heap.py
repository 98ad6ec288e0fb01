"""A heap whose items can leave, or take another key, before their turn comes."""

from __future__ import annotations

import math
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)

STALE_ENTRIES: Final = 64
"""How many stale entries may be kept, beyond one for each item."""


class RemovableHeap(Generic[ItemT]):
    """Items in ascending order of their keys, and for equal keys in the order of `put`.

    `put` and `pop_up_to` take O(log n), and `discard` O(1), all amortized.  The entry of a removed item stays until it
    reaches the top, or until most entries are stale and the heap is rebuilt.
    """

    __slots__ = ("_entries", "_numbers", "_puts")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, ItemT]] = []
        self._numbers: dict[ItemT, int] = {}
        """The number of each item's valid entry."""
        self._puts = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def size(self) -> int:
        """The number of entries, stale ones included."""
        return len(self._entries)

    def put(self, item: ItemT, key: float) -> None:
        """Add an item, or change its key."""
        numbers = self._numbers
        self._puts = number = self._puts + 1
        is_moved = item in numbers
        numbers[item] = number
        heappush(self._entries, (key, number, item))
        if is_moved and len(self._entries) > 2 * len(numbers) + STALE_ENTRIES:
            self._drop_stale()

    def discard(self, item: ItemT) -> None:
        """Remove the item, if it is there."""
        numbers = self._numbers
        if numbers.pop(item, None) is None:
            return
        if not numbers:
            self._entries.clear()
        elif len(self._entries) > 2 * len(numbers) + STALE_ENTRIES:
            self._drop_stale()

    def pop_up_to(self, key: float) -> ItemT | None:
        """Remove and return the first item if its key is at most `key`, else return None."""
        entries, numbers = self._entries, self._numbers
        while entries:
            entry_key, number, item = entries[0]
            is_valid = numbers.get(item) == number
            if is_valid and entry_key > key:
                return None
            heappop(entries)
            if is_valid:
                del numbers[item]
                return item
        return None

    @property
    def lowest_key(self) -> float:
        """The key of the first item; infinity if the heap is empty."""
        self._drop_stale_top()
        return self._entries[0][0] if self._entries else math.inf

    def _drop_stale_top(self) -> None:
        entries, numbers = self._entries, self._numbers
        while entries and numbers.get(entries[0][2]) != entries[0][1]:
            heappop(entries)

    def _drop_stale(self) -> None:
        numbers = self._numbers
        self._entries = [entry for entry in self._entries if numbers.get(entry[2]) == entry[1]]
        heapify(self._entries)
