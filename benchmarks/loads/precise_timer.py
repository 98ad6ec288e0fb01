"""Sleeps that end within a tenth of a millisecond.  On Linux, Trio's own end up to one later, as epoll waits."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from types import TracebackType
from typing import Final, Self

import trio

_CLOCK_MONOTONIC: Final = 1
"""The clock of `time.perf_counter`."""
_ABSOLUTE: Final = 1


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec`: an interval, 0 for none, and when the timer expires."""

    _fields_ = (
        *(("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long)),
        *(("expires_s", ctypes.c_long), ("expires_ns", ctypes.c_long)),
    )


class PreciseTimer:
    """A timerfd, closed on exit.  Elsewhere than on Linux, Trio's own sleeps.  One task may sleep at a time."""

    def __enter__(self) -> Self:
        """Raises OSError."""
        self._timer: int | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._timer = _checked(self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            trio.lowlevel.notify_closing(self._timer)
            os.close(self._timer)

    async def sleep_until(self, due_s: float) -> None:
        """Sleep until `time.perf_counter()` says so.  No checkpoint if it says so now.  Raises OSError."""
        left_s = due_s - time.perf_counter()
        if left_s <= 0:
            return
        if self._timer is None:
            await trio.sleep(left_s)
            return
        spec = _TimerSpec(0, 0, *divmod(int(due_s * 1e9) + 1, 10**9))
        _checked(self._libc.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(spec), None))
        await trio.lowlevel.wait_readable(self._timer)
        os.read(self._timer, 8)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
