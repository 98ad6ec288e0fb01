"""A clock that never stops or jumps, and goes on while the machine sleeps if the system has such a clock.

CLOCK_BOOTTIME of Linux does, and so does CLOCK_MONOTONIC of macOS.
"""

from __future__ import annotations

import sys
import time
from typing import Final

if sys.platform == "win32":
    clock_s = time.monotonic
else:
    _CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def clock_s() -> float:
        """Seconds since some moment."""
        return time.clock_gettime(_CLOCK)
