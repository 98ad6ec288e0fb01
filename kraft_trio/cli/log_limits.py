"""How often the log of a node repeats itself: what strangers can provoke must not fill disks or hide the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import attrs
import structlog

MAX_LINES: Final = 20
"""Lines with the same event and level within a period."""
PERIOD_S: Final = 10.0
MAX_EVENTS: Final = 1_000
"""How many different ones are told apart; beyond them all count as one."""


@attrs.define
class _Repeated:
    began_s: float
    lines: int = 0
    left_out: int = 0


class LineLimit:
    """A structlog processor that lets the first lines of a kind pass and counts the others, period by period.

    The event and the level make the kind: what else a line says may be a stranger's choice.  `left_out` tells the
    counts, once each; any thread may call it.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._repeated: dict[tuple[str, str], _Repeated] = {}
        """The one that began first comes first."""
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
        """Event, level and number of the lines left out in periods that have ended, or `at_once` in all."""
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
