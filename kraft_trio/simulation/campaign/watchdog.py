"""A real-time limit for a run in virtual time: a loop in which no virtual time passes never ends by itself."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("the simulator")

WAITING_FACTOR: Final = 10
"""Real time may exceed the CPU limit by this factor, because other processes also use the CPUs."""

_AGAIN_S: Final = 0.005
_POSTPONEMENTS: Final = 200

_TIMERS: Final = ((signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, WAITING_FACTOR))


class Stuck(BaseException):
    """Raised wherever the run is when its time is over.  Not an Exception, so that nothing handles it."""


@contextmanager
def real_time_limit(limit_s: float) -> Iterator[None]:
    """Raise Stuck in the block after `limit_s` seconds of CPU time, or ten times as much real time.

    The CPU limit ends loops, the other one ends runs whose tasks all wait forever.  Has no effect outside the main
    thread.  Limits may be nested.

    Stuck waits until a task runs, for a second at most: raised in Trio's scheduler, it would leave all tasks suspended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    postponed = 0

    def end(number: int, _frame: object) -> None:
        nonlocal postponed
        # Trio protects its own steps from Ctrl-C, and so from this.
        is_in_trio = trio.lowlevel.in_trio_run() and trio.lowlevel.currently_ki_protected()
        if is_in_trio and postponed < _POSTPONEMENTS:
            postponed += 1
            signal.setitimer(next(timer for timer, its_signal, _ in _TIMERS if its_signal == number), _AGAIN_S)
            return
        raise Stuck(f"still running after {limit_s:g} s")

    before = [signal.signal(number, end) for _, number, _ in _TIMERS]
    left = [signal.setitimer(timer, limit_s * factor)[0] for timer, _, factor in _TIMERS]
    try:
        yield
    finally:
        for timer, _, _ in _TIMERS:
            signal.setitimer(timer, 0.0)
        for (timer, number, _), handler, left_s in zip(_TIMERS, before, left, strict=True):
            signal.signal(number, handler)
            signal.setitimer(timer, left_s)
