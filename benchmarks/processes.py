"""What the kernel says about processes: memory and processor time (Linux's /proc)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import attrs

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Memory:
    """Resident memory of one process."""

    resident_mib: float
    """All of it, pages of mapped files included (VmRSS)."""
    anonymous_mib: float
    """Without the pages of files: what the process itself allocated (RssAnon)."""


def memory_of(pid: int) -> Memory:
    """Raises OSError when the process is gone."""
    kib = _kib_of(pid)
    return Memory(resident_mib=kib["VmRSS"] / 1024, anonymous_mib=kib["RssAnon"] / 1024)


def peak_resident_mib(pid: int) -> float:
    """The most that the process ever had resident (VmHWM).  Raises OSError when the process is gone."""
    return _kib_of(pid)["VmHWM"] / 1024


def _kib_of(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest}


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time that the processes have used so far, together.  Raises OSError when one is gone."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_SECOND


def tree_cpu_seconds(pid: int) -> float:
    """User and system time of a process and all that it has started, those that have ended included.

    Raises OSError when it is gone.
    """
    own = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, own[11:15]))
    children: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += (task / "children").read_text().split()
    return ticks / _TICKS_PER_SECOND + sum(_cpu_seconds_if_there(int(child)) for child in children)


def _cpu_seconds_if_there(pid: int) -> float:
    """One that ends meanwhile is in its parent's time a moment later."""
    try:
        return tree_cpu_seconds(pid)
    except OSError:
        return 0.0
