"""Distributions of the latency of a link, in seconds."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod

import attrs


def _check_time(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{type(instance).__name__}.{attribute.name}={value}: a time of 0 s or more was expected")


class Latency(ABC):
    """A distribution of one-way delays."""

    @abstractmethod
    def draw_s(self, random_source: random.Random) -> float:
        """One delay, in seconds."""

    @staticmethod
    def constant(seconds: float) -> Latency:
        return ConstantLatency(seconds)

    @staticmethod
    def uniform(minimum_s: float, maximum_s: float) -> Latency:
        return UniformLatency(minimum_s, maximum_s)

    @staticmethod
    def long_tailed(minimum_s: float, mean_s: float, maximum_s: float) -> Latency:
        return LongTailedLatency(minimum_s, mean_s, maximum_s)


@attrs.frozen
class ConstantLatency(Latency):
    """The same latency every time."""

    seconds: float = attrs.field(validator=_check_time)

    def draw_s(self, random_source: random.Random) -> float:
        return self.seconds


@attrs.frozen
class UniformLatency(Latency):
    """Any latency from `minimum_s` to `maximum_s`, all equally likely."""

    minimum_s: float = attrs.field(validator=_check_time)
    maximum_s: float = attrs.field(validator=_check_time)

    def __attrs_post_init__(self) -> None:
        if self.maximum_s < self.minimum_s:
            raise ValueError(f"UniformLatency.maximum_s={self.maximum_s}: at least {self.minimum_s} was expected")

    def draw_s(self, random_source: random.Random) -> float:
        return self.minimum_s + (self.maximum_s - self.minimum_s) * random_source.random()


@attrs.frozen
class LongTailedLatency(Latency):
    """Mostly near `minimum_s`, sometimes much longer: exponential above it with mean `mean_s`, at most `maximum_s`."""

    minimum_s: float = attrs.field(validator=_check_time)
    mean_s: float = attrs.field(validator=_check_time)
    """The mean of the latency before the maximum is applied."""
    maximum_s: float = attrs.field(validator=_check_time)

    def __attrs_post_init__(self) -> None:
        if not self.minimum_s <= self.mean_s <= self.maximum_s:
            raise ValueError(
                f"LongTailedLatency.mean_s={self.mean_s}: "
                f"{self.minimum_s} (minimum_s) to {self.maximum_s} (maximum_s) was expected"
            )

    def draw_s(self, random_source: random.Random) -> float:
        above = -math.log(1.0 - random_source.random()) * (self.mean_s - self.minimum_s)
        return min(self.minimum_s + above, self.maximum_s)
