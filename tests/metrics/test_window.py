"""What happened lately: two samples of 30 s, checked against a list of all that ever happened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.metrics.window import SAMPLE_S, Window

EVENTS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=30)
"""How long after the one before it, and how much."""


@given(EVENTS, st.floats(0, 100))
def test_only_the_sample_under_way_and_the_one_before_it_count(events: list[tuple[float, float]], wait: float) -> None:
    began = now = 1000.0
    window, all_events = Window(began), []
    for pause, value in events:
        now += pause
        window.add(value, now)
        all_events.append((now, value))
    now += wait
    first_sample = int((now - began) / SAMPLE_S) - 1
    values = [value for when, value in all_events if int((when - began) / SAMPLE_S) >= first_sample]
    if values:
        assert window.mean(now) == pytest.approx(sum(values) / len(values))
        assert window.largest(now) == max(values)
    else:
        assert window.mean(now) is None
        assert window.largest(now) is None
    length = now - max(began, began + first_sample * SAMPLE_S)
    assert window.rate(now) == pytest.approx(sum(values) / max(1.0, length))


def test_a_rate_covers_at_most_one_minute() -> None:
    window = Window(0.0)
    window.add(10, 0.5)
    assert window.rate(0.5) == 10.0
    assert window.rate(20.0) == 0.5
    window.add(50, 40.0)
    assert window.rate(59.0) == 60 / 59
    assert window.rate(60.0) == 50 / 30
    assert window.rate(90.0) == 0.0
