"""How long Trio's event loop waits for something to do (KIP-595 "poll-idle-ratio")."""

from __future__ import annotations

import trio

from kraft_trio.metrics.window import Window


class IdleTime(trio.abc.Instrument):
    """Measures the run it is made in, all nodes and the application in it together, until `close`.

    Called for each round of the scheduler; a round that does not wait costs a comparison.
    """

    def __init__(self) -> None:
        self._window = Window(trio.current_time())
        self._waits_since_s: float | None = None
        trio.lowlevel.add_instrument(self)

    def close(self) -> None:
        """Measure no more; closing twice does nothing."""
        try:
            trio.lowlevel.remove_instrument(self)
        except KeyError:
            pass

    def ratio(self) -> float:
        """The share of the last time, 0 to 1."""
        return min(1.0, self._window.rate(trio.current_time()))

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._waits_since_s = trio.current_time()

    def after_io_wait(self, timeout: float) -> None:
        if self._waits_since_s is not None:
            now_s = trio.current_time()
            self._window.add(now_s - self._waits_since_s, now_s)
            self._waits_since_s = None
