"""Bounded waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = 60.0
"""Limit for a step that normally takes a second or two: the machine may be busy."""


class Overdue(AssertionError):
    """A condition did not come true in time."""


def wait_until(
    what: str, probe: Callable[[], T | None], seconds: float = WAIT_SECONDS, interval_seconds: float = 0.02
) -> T:
    """Call `probe` until it returns a true value, and return that value.  Raises Overdue after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise Overdue(f"not within {seconds:g} s: {what} (last answer: {answer!r})")
        time.sleep(interval_seconds)


def wait_patiently(what: str, probe: Callable[[], T | None], seconds: float) -> T:
    """Like `wait_until`, with a probe that waits itself: what is overdue for it once may come later.  Raises
    Overdue."""

    def once() -> T | None:
        with suppress(Overdue):
            return probe()
        return None

    return wait_until(what, once, seconds)
