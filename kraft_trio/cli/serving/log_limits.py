"""Limits how often a node's log repeats a line, so that strangers cannot fill disks or hide other lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import attrs
import structlog

MAX_LINES: Final = 20
"""Maximum number of lines with the same event and level in one period."""
PERIOD_S: Final = 10.0
MAX_EVENTS: Final = 1_000
"""Maximum number of distinct events; further ones count as one."""


@attrs.define
class _Repeated:
    began_s: float
    lines: int = 0
    left_out: int = 0


class LineLimit:
    """A structlog processor that passes the first lines of each kind in a period and counts the others.

    Event and level define the kind; a stranger may control the rest of the line.  `left_out` returns each count once.
    Thread-safe.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._repeated: dict[tuple[str, str], _Repeated] = {}
        """Ordered by the start of their periods."""
        self._ended: list[tuple[str, str, int]] = []
        self._lock = threading.Lock()

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        now_s = self._now_s()
        with self._lock:
            self._end_periods(now_s)
            kind = (str(event.get("event")), method)
            if kind not in self._repeated and len(self._repeated) >= MAX_EVENTS:
                kind = ("others", method)
            repeated = self._repeated.setdefault(kind, _Repeated(now_s))
            if repeated.lines >= MAX_LINES:
                repeated.left_out += 1
                raise structlog.DropEvent
            repeated.lines += 1
        return event

    def left_out(self, *, at_once: bool = False) -> list[tuple[str, str, int]]:
        """Event, level and count of the lines dropped in ended periods, or in all periods if `at_once`."""
        with self._lock:
            self._end_periods(float("inf") if at_once else self._now_s())
            ended, self._ended = self._ended, []
            return ended

    def _end_periods(self, now_s: float) -> None:
        while self._repeated:
            kind = next(iter(self._repeated))
            if now_s - self._repeated[kind].began_s < PERIOD_S:
                return
            repeated = self._repeated.pop(kind)
            if repeated.left_out:
                self._ended.append((*kind, repeated.left_out))
