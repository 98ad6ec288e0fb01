"""Measures how long the event loop runs without polling for I/O.  Everything else in the process waits that long."""

from __future__ import annotations

import logging
import math
import time
from typing import Final

import trio

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.logs import get_logger
from kraft_trio.metrics.window import Window

log = get_logger(__name__)

STALL_MS: Final = 50.0
WARNED_MS: Final = 200.0
"""Shorter stalls are logged at level info: they delay others, but cost no election."""
TELL_EVERY_S: Final = 10.0
NAME_FOR_S: Final = 60.0
"""How long after a stall each step of each task is timed, so that the next stall can be blamed on one."""
_NS_PER_MS: Final = 1_000_000
_MARK_AGE_NS: Final = 25 * _NS_PER_MS
"""The CPU clock is read again when the turns since its last reading add up to this."""


class StallWatch(trio.abc.Instrument):
    """Measures every turn of the Trio run that `run` is called in: all its nodes and the application together.

    A turn counts as a stall by the CPU time of the loop's thread, which neither a slow disk nor a busy machine can
    stretch.  Peers and clients see wall time, so that is measured too.  In virtual time there is nothing to measure.

    Reading the CPU clock is a slow system call, and timing every step of every task costs as much as some requests.
    So the clock is read once the turns since the last reading add up to 25 ms.  The CPU time of a long turn is what
    the clock says since then, less the wall time of the short turns in between: at most 25 ms too little.  Steps are
    timed only for a minute after a stall.
    """

    def __init__(self) -> None:
        self.stalls = 0
        """Turns that took at least STALL_MS of CPU time, since the start."""
        self.longest_cpu_ms = 0.0
        """The longest turn by CPU time since the start; shorter ones than 25 ms are not looked at one by one."""
        self._turns = LoopTurns.of_this_run()
        self._steps: _StepTimes | None = None
        self._steps_end_s = -math.inf
        self._wall_ms = Window(trio.current_time())
        self._longest_ns = 0
        """The longest turn that is not in the window yet."""
        self._marked_cpu_ns = 0
        self._since_mark_ns = 0
        self._told_s = -math.inf

    async def run(self) -> None:
        """Measure until cancelled."""
        self._marked_cpu_ns = time.thread_time_ns()
        trio.lowlevel.add_instrument(self)
        try:
            await trio.sleep_forever()
        finally:
            trio.lowlevel.remove_instrument(self)
            self._stop_timing_steps()

    def longest_wall_ms(self) -> float | None:
        """The longest turn of the last 30 to 60 seconds by wall time; None if there was no turn."""
        now_s = trio.current_time()
        self._add_longest(now_s)
        return self._wall_ms.largest(now_s)

    def before_io_wait(self, timeout: float) -> None:
        took_ns = time.perf_counter_ns() - self._turns.began_ns
        self._longest_ns = max(self._longest_ns, took_ns)
        self._since_mark_ns += took_ns
        if self._since_mark_ns >= _MARK_AGE_NS:
            self._read_cpu_clock(took_ns, trio.current_time())

    def _read_cpu_clock(self, took_ns: int, now_s: float) -> None:
        self._add_longest(now_s)
        cpu_ns = time.thread_time_ns()
        # A turn uses no more CPU time than passes.
        turn_ns = min(cpu_ns - self._marked_cpu_ns - (self._since_mark_ns - took_ns), took_ns)
        self._marked_cpu_ns, self._since_mark_ns = cpu_ns, 0
        cpu_ms = turn_ns / _NS_PER_MS
        self.longest_cpu_ms = max(self.longest_cpu_ms, cpu_ms)
        if cpu_ms >= STALL_MS:
            self.stalls += 1
            self._tell(took_ns / _NS_PER_MS, cpu_ms, now_s)
            self._time_steps(now_s)
        elif self._steps is not None:
            self._steps.forget()
            if now_s >= self._steps_end_s:
                self._stop_timing_steps()

    def _add_longest(self, now_s: float) -> None:
        if self._longest_ns:
            self._wall_ms.add(self._longest_ns / _NS_PER_MS, now_s)
            self._longest_ns = 0

    def _time_steps(self, now_s: float) -> None:
        self._steps_end_s = now_s + NAME_FOR_S
        if self._steps is None:
            self._steps = _StepTimes()
            trio.lowlevel.add_instrument(self._steps)
        self._steps.forget()

    def _stop_timing_steps(self) -> None:
        if self._steps is not None:
            trio.lowlevel.remove_instrument(self._steps)
            self._steps = None

    def _tell(self, wall_ms: float, cpu_ms: float, now_s: float) -> None:
        if now_s - self._told_s < TELL_EVERY_S:
            return
        self._told_s = now_s
        log.log(
            logging.WARNING if cpu_ms >= WARNED_MS else logging.INFO,
            "event loop stalled",
            cpu_ms=round(cpu_ms),
            wall_ms=round(wall_ms),
            longest_step="not timed before the first stall" if self._steps is None else self._steps.longest(),
            stalls=self.stalls,
        )


class _StepTimes(trio.abc.Instrument):
    """The task whose step took longest since `forget`."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._longest_ns = 0
        self._task_name = ""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began_ns = time.perf_counter_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_ns = time.perf_counter_ns() - self._began_ns
        if took_ns > self._longest_ns:
            self._longest_ns, self._task_name = took_ns, task.name

    def forget(self) -> None:
        self._longest_ns = 0

    def longest(self) -> str:
        return f"{self._task_name} ({self._longest_ns / _NS_PER_MS:.0f} ms)"
