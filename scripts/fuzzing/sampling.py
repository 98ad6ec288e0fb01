"""Takes values from a strategy of Hypothesis, the same ones each time."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

T = TypeVar("T")


def sampled(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    found: list[T] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def take(value: T) -> None:
        found.append(value)

    take()
    return found
