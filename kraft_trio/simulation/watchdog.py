"""A limit in real time for a run in virtual time: a loop in which no virtual time passes never ends by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stuck(BaseException):
    """Raised wherever the run happens to be when its real time is over.  No Exception: nothing must handle it."""


@contextmanager
def real_time_limit(limit_s: float) -> Iterator[None]:
    """Raise Stuck in the block after `limit_s` seconds; without effect outside of a process's main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: object) -> None:
        raise Stuck(f"still running after {limit_s:g} s of real time")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
