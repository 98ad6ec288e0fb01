"""Sorting in pieces, so that others may run between them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar, cast

from kraft_trio.kv.budget import KEYS_PER_PIECE, Steps

T = TypeVar("T")

BYTES_PER_PIECE: Final = 8 * 1024 * 1024
"""Bytes that are sorted before others may run, if the number of values does not end the piece."""


def sorted_in_pieces(
    values: list[T],
    key: Callable[[T], Any] | None = None,
    *,
    reverse: bool = False,
    size: Callable[[T], int] | None = None,
) -> Steps[list[T]]:
    """What `sorted` returns.  `size` is how many bytes a comparison of a value may look at, if they are many."""
    runs: list[list[Any]] = []
    unsorted = iter(values)
    while run := _next_piece(unsorted, size):
        cast(list[Any], run).sort(key=key, reverse=reverse)
        if len(run) == len(values):
            return run
        runs.append(run)
        yield
    merged = heapq.merge(*runs, key=cast(Any, key), reverse=reverse)
    result: list[T] = []
    while piece := _next_piece(merged, size):
        result += piece
        yield
    return result


def _next_piece(values: Iterator[T], size: Callable[[T], int] | None) -> list[T]:
    few = islice(values, KEYS_PER_PIECE)
    if size is None:
        return list(few)
    piece: list[T] = []
    room = BYTES_PER_PIECE
    while room > 0 and (value := next(few, None)) is not None:
        piece.append(value)
        room -= size(value)
    return piece
