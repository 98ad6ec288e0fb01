"""The processors and the memory that this process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def processors() -> int:
    if sys.platform == "linux" and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Of this machine, or the limit of its control group."""
    machine = _machine_bytes()
    try:
        limit = _CGROUP.read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine


if sys.platform == "win32":

    def _machine_bytes() -> int:
        import ctypes

        class Status(ctypes.Structure):
            """MEMORYSTATUSEX."""

            _fields_ = (
                ("length", ctypes.c_uint32),
                ("load", ctypes.c_uint32),
                ("total", ctypes.c_uint64),
                ("others", ctypes.c_uint64 * 6),
            )

        status = Status(length=ctypes.sizeof(Status))
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status.total)
else:

    def _machine_bytes() -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
