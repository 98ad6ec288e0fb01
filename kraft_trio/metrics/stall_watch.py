"""How long the event loop goes on without looking for I/O: whoever waits for it waits that long at most."""

from __future__ import annotations

import logging
import time
from typing import Final

import structlog
import trio

from kraft_trio.metrics.window import Window

log = structlog.get_logger(__name__)

STALL_MS: Final = 50.0
WARNED_MS: Final = 200.0
"""Shorter stalls are told at level info: they delay others, but cost no election."""
TELL_EVERY_S: Final = 10.0
_NS_PER_MS: Final = 1_000_000
_NAMED_NS: Final = 5 * _NS_PER_MS
"""Shorter steps are not looked at for the name of what ran."""


class StallWatch(trio.abc.Instrument):
    """Measures every turn of the run that `run` is called in: all nodes and the application in it together.

    By the CPU time of the loop's thread, which neither a slow disk nor a busy machine can stretch, and by wall time,
    which is what the peers and clients see.  In virtual time there is nothing to measure.
    """

    def __init__(self) -> None:
        self.stalls = 0
        """Turns of STALL_MS and more of CPU time, since the start."""
        self.longest_cpu_ms = 0.0
        """The longest turn by CPU time, since the start."""
        self._wall_ms = Window(trio.current_time())
        self._began_ns = self._began_cpu_ns = 0
        self._step_began_ns = 0
        self._task: trio.lowlevel.Task | None = None
        self._longest_step_ns = 0
        self._longest_task = ""
        self._told_s = -TELL_EVERY_S

    async def run(self) -> None:
        """Measure until cancelled."""
        self._began_ns = self._step_began_ns = time.perf_counter_ns()
        self._began_cpu_ns = time.thread_time_ns()
        trio.lowlevel.add_instrument(self)
        try:
            await trio.sleep_forever()
        finally:
            trio.lowlevel.remove_instrument(self)

    def longest_wall_ms(self) -> float | None:
        """The longest turn of the last 30 to 60 seconds; None where there was none."""
        return self._wall_ms.largest(trio.current_time())

    # Instrument

    def after_io_wait(self, timeout: float) -> None:
        self._began_ns = self._step_began_ns = time.perf_counter_ns()
        self._began_cpu_ns = time.thread_time_ns()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        now_ns = time.perf_counter_ns()
        if now_ns - self._step_began_ns > _NAMED_NS:
            self._note_step(now_ns)
        self._step_began_ns = now_ns
        self._task = task

    def before_io_wait(self, timeout: float) -> None:
        now_ns = time.perf_counter_ns()
        wall_ms = (now_ns - self._began_ns) / _NS_PER_MS
        now_s = trio.current_time()
        self._wall_ms.add(wall_ms, now_s)
        # Nobody has used more CPU time than has passed.
        if wall_ms > self.longest_cpu_ms or wall_ms >= STALL_MS:
            cpu_ms = (time.thread_time_ns() - self._began_cpu_ns) / _NS_PER_MS
            self.longest_cpu_ms = max(self.longest_cpu_ms, cpu_ms)
            if cpu_ms >= STALL_MS:
                self.stalls += 1
                self._note_step(now_ns)
                self._tell(wall_ms, cpu_ms, now_s)
        self._task = None
        self._longest_step_ns, self._longest_task = 0, ""

    def _note_step(self, now_ns: int) -> None:
        took_ns = now_ns - self._step_began_ns
        if self._task is not None and took_ns > self._longest_step_ns:
            self._longest_step_ns, self._longest_task = took_ns, self._task.name

    def _tell(self, wall_ms: float, cpu_ms: float, now_s: float) -> None:
        if now_s - self._told_s < TELL_EVERY_S:
            return
        self._told_s = now_s
        log.log(
            logging.WARNING if cpu_ms >= WARNED_MS else logging.INFO,
            "event loop stalled",
            cpu_ms=round(cpu_ms),
            wall_ms=round(wall_ms),
            longest_step=self._longest_task or "none by itself",
            longest_step_ms=round(self._longest_step_ns / _NS_PER_MS),
            stalls=self.stalls,
        )
