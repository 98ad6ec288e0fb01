"""What kind of file system a file is on, as far as the system tells.  Linux tells it in /proc; others nothing."""

from __future__ import annotations

import os
import sys
from typing import Final

from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("a node's files")

_MOUNTS: Final = "/proc/self/mountinfo"
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
"""Kinds whose files do not survive a restart of the machine, although they can be synced."""


def kind_of(path: str) -> str | None:
    """The kind, such as ext4; None if the system does not tell."""
    try:
        device = os.stat(path).st_dev
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            return _kind(mounts.read(), f"{os.major(device)}:{os.minor(device)}")
    except OSError:
        return None


def _kind(mounts: str, device: str) -> str | None:
    for line in mounts.splitlines():
        # 36 35 98:0 /root /mount options optional fields - ext4 source options
        before, _, after = line.partition(" - ")
        if before.split(maxsplit=3)[2:3] == [device]:
            return after.split(maxsplit=1)[0]
    return None
