"""Cutting a range of offsets into pieces that tasks read side by side."""

from __future__ import annotations

from itertools import pairwise


def plan_ranges(begin: int, end: int, at_least: int, longest: int) -> list[tuple[int, int]]:
    """Ranges, ends exclusive, that cover `begin` (inclusive) to `end` (exclusive) in order, as even as they can be.

    There are as few of them as keep each within `longest` offsets, but `at_least` so many where there are so many
    offsets.  The same arguments give the same ranges.
    """
    length = end - begin
    if length <= 0:
        return []
    count = min(length, max(at_least, -(-length // longest)))
    cuts = [begin + length * index // count for index in range(count + 1)]
    return list(pairwise(cuts))
