"""Latencies as text: `5ms`, `1ms..20ms`, `1ms..2s~30ms`."""

from __future__ import annotations

import attrs

from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.script.parts import Part, duration_from_text, duration_text
from kraft_trio.simulation.script.words import Words


@attrs.frozen
class Delay:
    """How long data is under way, in microseconds: anything between two bounds, or mostly near the lower one."""

    minimum_us: int
    maximum_us: int
    mean_us: int | None = None
    """None: all delays between the bounds are equally likely.  Else exponential above the minimum, with this mean."""

    def __attrs_post_init__(self) -> None:
        in_order = [self.minimum_us, *([] if self.mean_us is None else [self.mean_us]), self.maximum_us]
        if sorted(in_order) != in_order or self.minimum_us < 0:
            raise ValueError(f"{self}: expected 0 <= minimum <= mean <= maximum")

    def latency(self) -> Latency:
        """The distribution, as links take it."""
        if self.mean_us is not None:
            return Latency.long_tailed(self.minimum_us / 1e6, self.mean_us / 1e6, self.maximum_us / 1e6)
        if self.minimum_us == self.maximum_us:
            return Latency.constant(self.minimum_us / 1e6)
        return Latency.uniform(self.minimum_us / 1e6, self.maximum_us / 1e6)

    def __str__(self) -> str:
        if self.mean_us is None and self.minimum_us == self.maximum_us:
            return duration_text(self.minimum_us)
        mean = "" if self.mean_us is None else f"~{duration_text(self.mean_us)}"
        return f"{duration_text(self.minimum_us)}..{duration_text(self.maximum_us)}{mean}"


def delay_from_text(text: str) -> Delay | None:
    """Read what `str` of a Delay gives; None for another text."""
    bounds, has_mean, mean = text.partition("~")
    minimum, has_maximum, maximum = bounds.partition("..")
    minimum_us = duration_from_text(minimum)
    maximum_us = duration_from_text(maximum) if has_maximum else minimum_us
    mean_us = duration_from_text(mean) if has_mean else None
    if minimum_us is None or maximum_us is None or (has_mean and mean_us is None):
        return None
    try:
        return Delay(minimum_us, maximum_us, mean_us)
    except ValueError:
        return None


class DelayPart(Part[Delay]):
    """A latency."""

    name = "T|MIN..MAX|MIN..MAX~MEAN"
    expected = "a latency, as in 5ms, 1ms..20ms, or 1ms..2s~30ms for mostly short ones with a mean of 30ms"

    def begins(self, words: Words) -> bool:
        return delay_from_text(words.peek() or "") is not None

    def read(self, words: Words) -> Delay:
        delay = delay_from_text(words.peek() or "")
        if delay is None:
            raise self.error(words)
        words.take(self.expected)
        return delay

    def write(self, value: Delay) -> list[str]:
        return [str(value)]

    def check(self, value: Delay) -> bool:
        return isinstance(value, Delay)


DELAY = DelayPart()
