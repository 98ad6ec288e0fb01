"""How long Trio's event loop waits for something to do (KIP-595 "poll-idle-ratio-avg")."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.metrics.window import Window

SLICE_S: Final = 0.05
EVERY_S: Final = 0.5
"""The loop is looked at for a slice of that length, that often: each of its rounds then costs two calls more."""


class IdleTime(trio.abc.Instrument):
    """Measures the run that `run` is called in: all nodes and the application in it together.

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
        """Look at the event loop for one slice."""
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
        """The share of the time, 0 to 1; None where nothing has been measured lately."""
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
