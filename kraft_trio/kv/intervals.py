"""Ranges of keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import attrs

TO_THE_END: Final = b"\0"
"""The `range_end` that means all keys from `key` on."""


@attrs.frozen
class Interval:
    """The keys from `start` (inclusive) to `end` (exclusive); None means that there is no end."""

    start: bytes
    end: bytes | None

    @classmethod
    def of(cls, key: bytes, range_end: bytes) -> Interval:
        """The interval that a request means by `key` and `range_end`."""
        if not range_end:
            return cls(key, key + b"\0")
        return cls(key, None if range_end == TO_THE_END else range_end)

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


class KeySet:
    """A union of intervals, in which a key is found in logarithmic time."""

    def __init__(self) -> None:
        self._starts: list[bytes] = []
        """They are disjoint, and in order."""
        self._ends: list[bytes | None] = []

    def __contains__(self, key: bytes) -> bool:
        index = bisect_right(self._starts, key) - 1
        return index >= 0 and key in Interval(self._starts[index], self._ends[index])

    def __iter__(self) -> Iterator[Interval]:
        return map(Interval, self._starts, self._ends)

    def add(self, interval: Interval) -> None:
        """Add an interval, which becomes one with those that it touches."""
        start, end = interval.start, interval.end
        if end is not None and end <= start:
            return
        first = last = bisect_right(self._starts, start)
        if first and _reaches(self._ends[first - 1], start):
            first -= 1
            start = self._starts[first]
            end = _later(end, self._ends[first])
        while last < len(self._starts) and _reaches(end, self._starts[last]):
            end = _later(end, self._ends[last])
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]


def _reaches(end: bytes | None, key: bytes) -> bool:
    return end is None or key <= end


def _later(one: bytes | None, other: bytes | None) -> bytes | None:
    return None if one is None or other is None else max(one, other)


def prefix_end(prefix: bytes) -> bytes:
    """The `range_end` that means all keys with this prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else TO_THE_END
