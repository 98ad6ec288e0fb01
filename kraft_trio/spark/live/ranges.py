"""Cuts a range of offsets into pieces for parallel tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

MOST_RANGES: Final = 100_000


def plan_ranges(begin: int, end: int, at_least: int, longest: int) -> list[tuple[int, int]]:
    """Split `begin` (inclusive) to `end` (exclusive) into consecutive, nearly equal ranges with exclusive ends.

    There are as few as possible with at most `longest` offsets each, but `at_least` this many if there are enough
    offsets, and no more than MOST_RANGES for an end that nobody can have reached. Equal arguments give equal ranges.
    """
    length = end - begin
    if length <= 0:
        return []
    count = min(length, max(at_least, min(-(-length // longest), MOST_RANGES)))
    cuts = [begin + length * index // count for index in range(count + 1)]
    return list(pairwise(cuts))
