"""Sorting in pieces, so that others may run between them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar, cast

from kraft_trio.kv.budget import KEYS_PER_PIECE, Steps

T = TypeVar("T")


def sorted_in_pieces(
    values: list[T], key: Callable[[T], Any] | None = None, *, reverse: bool = False
) -> Steps[list[T]]:
    """What `sorted` returns."""
    runs: list[list[Any]] = []
    for start in range(0, len(values), KEYS_PER_PIECE):
        run: list[Any] = values[start : start + KEYS_PER_PIECE]
        run.sort(key=key, reverse=reverse)
        if len(run) == len(values):
            return run
        runs.append(run)
        yield
    merged = heapq.merge(*runs, key=cast(Any, key), reverse=reverse)
    result: list[T] = []
    while piece := list(islice(merged, KEYS_PER_PIECE)):
        result += piece
        yield
    return result
