"""The signals that a node hears, and whether it has a terminal whose end would send one."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

if sys.platform == "win32":
    HANGUP: Final = signal.SIGBREAK
    ENDS: Final = (signal.SIGTERM, signal.SIGINT)
    _TERMINAL_FLAGS: Final = os.O_RDONLY
else:
    HANGUP: Final = signal.SIGHUP
    ENDS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
    _TERMINAL_FLAGS: Final = os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC


def has_terminal() -> bool:
    """Whether the process has a controlling terminal.  It loses it when the terminal closes."""
    try:
        os.close(os.open("/dev/tty", _TERMINAL_FLAGS))
    except OSError:
        return False
    return True
