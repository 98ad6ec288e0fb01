"""Numbers that change over time, kept as what each change adds, and shown as points for a plot."""

from __future__ import annotations

from array import array

import attrs
import numpy as np

POINTS = 400
"""How many points a line has at most."""


@attrs.define
class Series:
    """One number over time.  Add in the order of time."""

    _times: array[int] = attrs.field(factory=lambda: array("q"))
    _deltas: array[int] = attrs.field(factory=lambda: array("q"))
    value: int = 0
    """The newest."""

    def add(self, time_us: int, delta: int) -> None:
        if delta:
            self._times.append(time_us)
            self._deltas.append(delta)
            self.value += delta

    def points(self, start_us: int, end_us: int, *, is_highest: bool = False) -> tuple[list[float], list[int]]:
        """Times in seconds since 1970 and the values from there on, from `start_us` to `end_us`, both inclusive.

        Of many changes, a point shows the last value of its period, or with `is_highest` the highest one, so that
        nothing short is lost.
        """
        times = np.frombuffer(self._times, np.int64) if self._times else np.zeros(0, np.int64)
        values = np.concatenate([[0], np.cumsum(np.frombuffer(self._deltas, np.int64) if self._deltas else [])])
        values = values.astype(np.int64)
        ends = np.linspace(start_us, end_us, POINTS + 1)[1:] if end_us > start_us else np.array([float(end_us)])
        after = np.searchsorted(times, ends, side="right")
        before = np.concatenate([[np.searchsorted(times, start_us, side="right")], after[:-1]])
        if is_highest:
            shown = [int(values[first : last + 1].max()) for first, last in zip(before, after, strict=True)]
        else:
            shown = values[after].tolist()
        starts = np.concatenate([[start_us], ends[:-1]]) / 1e6
        # The last value also stands at the end.
        return [*starts.tolist(), end_us / 1e6], [*shown, shown[-1]]
