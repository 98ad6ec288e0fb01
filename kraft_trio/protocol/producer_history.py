"""Keeps the producers' states at a few earlier offsets, so that a truncation reads little of the log again."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.producers import ProducerStates

SPACING_BYTES: Final = 1024 * 1024
"""The least distance between two points."""
MAX_POINTS: Final = 64
MAX_KEPT_PRODUCERS: Final = 400_000
"""The limit for all points together.  The first and the newest point always stay."""

_SPACING_BYTES_PER_PRODUCER: Final = 128
"""A copy takes time for each producer, so copies must not be too frequent."""


@attrs.frozen
class _Point:
    offset: int
    position: int
    """Bytes from an arbitrary start; only differences matter."""
    producers: ProducerStates


class ProducerHistory:
    """Copies of the producers' states, oldest first.  A truncation starts from the newest one that is not above it.

    Committed batches are never truncated, so only the newest point below the high watermark is kept.  Above it, points
    are at least `SPACING_BYTES` apart.  If there are too many, those go that leave the smallest gap relative to their
    distance from the end.  So a truncation reads only a small part of what it drops.
    """

    def __init__(self, offset: int, producers: ProducerStates) -> None:
        self._points: list[_Point] = []
        self._position = 0
        self.begin_at(offset, producers)

    @property
    def start_offset(self) -> int:
        """The first point's offset.  No truncation may go below it."""
        return self._points[0].offset

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets of the points, oldest first."""
        return tuple(point.offset for point in self._points)

    def begin_at(self, offset: int, producers: ProducerStates) -> None:
        """Forget all points.  The log now starts at `offset`, with these producers."""
        self._points = [_Point(offset, self._position, producers.copy())]

    def advance_start(self, offset: int, producers: ProducerStates) -> None:
        """Forget points below `offset`, because no truncation goes below it any more."""
        self._points = [
            _Point(offset, self._points[0].position, producers.copy()),
            *(point for point in self._points if point.offset > offset),
        ]

    def grow(self, size: int, offset: int, producers: ProducerStates, high_watermark: int | None = None) -> None:
        """Note that the log grew by `size` bytes to `offset`, with these producers."""
        self._position += size
        newest = self._points[-1]
        distance = self._position - newest.position
        if distance < SPACING_BYTES or distance < _SPACING_BYTES_PER_PRODUCER * len(producers):
            return
        if offset <= newest.offset:
            return
        self._points.append(_Point(offset, self._position, producers.copy()))
        if high_watermark is not None:
            while len(self._points) > 1 and self._points[1].offset <= high_watermark:
                del self._points[0]
        while len(self._points) > 2 and self._are_too_many():
            del self._points[self._most_dispensable()]

    def go_back(self, offset: int) -> tuple[int, ProducerStates]:
        """Forget points above `offset`; return the newest point at or below it, and a copy of its producers.

        The caller records the batches between the two in the copy, and calls `grow` for them.
        """
        assert offset >= self.start_offset, f"offset {offset}: the producers are known from {self.start_offset} on"
        while self._points[-1].offset > offset:
            del self._points[-1]
        self._position = self._points[-1].position
        return self.newest_until(offset)

    def newest_until(self, offset: int) -> tuple[int, ProducerStates]:
        """The newest point at or below `offset`, and a copy of its producers."""
        newest = next(point for point in reversed(self._points) if point.offset <= offset)
        return newest.offset, newest.producers.copy()

    def _are_too_many(self) -> bool:
        points = self._points
        return len(points) > MAX_POINTS or sum(len(point.producers) for point in points) > MAX_KEPT_PRODUCERS

    def _most_dispensable(self) -> int:
        """The index of the point between the first and the newest whose loss costs least."""
        points = self._points

        def cost(index: int) -> float:
            gap = points[index + 1].position - points[index - 1].position
            return gap / (self._position - points[index].position)

        return min(range(1, len(points) - 1), key=cost)
