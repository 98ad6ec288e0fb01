"""Sums, means, maxima and rates over the last 30 to 60 seconds, like Kafka's metrics."""

from __future__ import annotations

from typing import Final

SAMPLE_S: Final = 30.0
"""Length of a sample.  The current sample and the previous one count (Kafka's default for its own metrics)."""

_SHORTEST_S: Final = 1.0
"""Minimum period of a rate, however little time has passed."""


class _Sample:
    __slots__ = ("count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0


class Window:
    """Collects non-negative values over time; `now_s` must never fall between calls."""

    __slots__ = ("_before", "_began_s", "_ends_s", "_sample")

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._ends_s = now_s + SAMPLE_S
        self._sample = _Sample()
        self._before = _Sample()

    def add(self, value: float, now_s: float) -> None:
        """Add a value."""
        if now_s >= self._ends_s:
            self._begin_sample(now_s)
        sample = self._sample
        sample.count += 1
        sample.total += value
        sample.largest = max(sample.largest, value)

    def mean(self, now_s: float) -> float | None:
        """None without values."""
        count = self._counted(now_s)
        return self._total / count if count else None

    def largest(self, now_s: float) -> float | None:
        """None without values."""
        return max(self._sample.largest, self._before.largest) if self._counted(now_s) else None

    def rate(self, now_s: float) -> float:
        """The sum of the values per second."""
        self._counted(now_s)
        return self._total / max(_SHORTEST_S, now_s - max(self._began_s, self._ends_s - 2 * SAMPLE_S))

    @property
    def _total(self) -> float:
        return self._sample.total + self._before.total

    def _counted(self, now_s: float) -> int:
        if now_s >= self._ends_s:
            self._begin_sample(now_s)
        return self._sample.count + self._before.count

    def _begin_sample(self, now_s: float) -> None:
        samples_over = int((now_s - self._ends_s) / SAMPLE_S) + 1
        self._before = self._sample if samples_over == 1 else _Sample()
        self._sample = _Sample()
        self._ends_s += samples_over * SAMPLE_S
