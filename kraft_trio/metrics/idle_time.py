"""Measures how long Trio's event loop waits for work (KIP-595 "poll-idle-ratio-avg")."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.metrics.window import Window

SLICE_S: Final = 0.05
EVERY_S: Final = 0.5
"""Length and interval of the samples.  During a sample, each turn of the loop costs two extra calls."""


class IdleTime(trio.abc.Instrument):
    """Measures the Trio run in which `run` is called: all its nodes and the application together.

    In virtual time nothing ever waits.
    """

    def __init__(self) -> None:
        now_s = trio.current_time()
        self._looked = Window(now_s)
        self._waited = Window(now_s)
        self._waited_in_slice_s = 0.0
        self._waits_since_s: float | None = None

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.look()
            await trio.sleep(EVERY_S - SLICE_S)

    async def look(self) -> None:
        """Observe the event loop for one sample."""
        began_s, self._waited_in_slice_s = trio.current_time(), 0.0
        trio.lowlevel.add_instrument(self)
        try:
            await trio.sleep(SLICE_S)
        finally:
            trio.lowlevel.remove_instrument(self)
        now_s = trio.current_time()
        self._looked.add(now_s - began_s, now_s)
        self._waited.add(self._waited_in_slice_s, now_s)

    def ratio(self) -> float | None:
        """The idle fraction of the time, 0 to 1; None without recent samples."""
        now_s = trio.current_time()
        looked = self._looked.rate(now_s)
        return self._waited.rate(now_s) / looked if looked else None

    # Instrument

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._waits_since_s = trio.current_time()

    def after_io_wait(self, timeout: float) -> None:
        if self._waits_since_s is not None:
            self._waited_in_slice_s += trio.current_time() - self._waits_since_s
            self._waits_since_s = None
