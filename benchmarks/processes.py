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


def tree_cpu_seconds(root: int) -> float:
    """User and system time of a process and all that it has started, those that have ended included.

    Raises ValueError when it is gone.
    """
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # One that has ended meanwhile: its parent has its time.
        pid = int(path.parent.name)
        ticks[pid] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(pid)
    if root not in ticks:
        raise ValueError(f"there is no process {root}")
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return sum(ticks[pid] for pid in found) / _TICKS_PER_SECOND
