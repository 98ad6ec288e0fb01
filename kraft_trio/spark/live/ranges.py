"""Cuts a range of offsets into pieces for parallel tasks."""

from __future__ import annotations

from itertools import pairwise


def plan_ranges(begin: int, end: int, at_least: int, longest: int) -> list[tuple[int, int]]:
    """Split `begin` (inclusive) to `end` (exclusive) into consecutive, nearly equal ranges with exclusive ends.

    There are as few as possible with at most `longest` offsets each, but `at_least` this many if there are enough
    offsets. Equal arguments give equal ranges.
    """
    length = end - begin
    if length <= 0:
        return []
    count = min(length, max(at_least, -(-length // longest)))
    cuts = [begin + length * index // count for index in range(count + 1)]
    return list(pairwise(cuts))
