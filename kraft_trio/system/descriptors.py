"""The process's open files: their limit, and how many are left."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from typing import Final

UNLIMITED: Final = sys.maxsize
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the machine, can open no more."""
OF_ITS_OWN: Final[int] = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags for opening a file: its name is no link, and programs that are executed do not get the descriptor."""
_ENOUGH: Final = 2**20
_DESCRIPTORS: Final = "/dev/fd"
"""A directory with an entry for each open descriptor of this process.  FreeBSD's may have the standard three only."""

if sys.platform == "win32":

    def limit() -> int:
        """The most descriptors that this process may have open; UNLIMITED if there is no limit."""
        return UNLIMITED

    def raise_limit() -> tuple[int, str]:
        """Raise the limit as far as this process may.  Returns it, and why it is lower than allowed, if it is."""
        return UNLIMITED, ""
else:
    import resource

    def limit() -> int:
        """The most descriptors that this process may have open; UNLIMITED if there is no limit."""
        return _known(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def raise_limit() -> tuple[int, str]:
        """Raise the limit as far as this process may.  Returns it, and why it is lower than allowed, if it is."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        reason = ""
        for wanted in _attempts(_known(soft), _known(hard)):
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return wanted, ""
            except (OSError, ValueError) as error:
                reason = reason or str(error)
        return _known(soft), reason

    def _known(limit: int) -> int:
        return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _attempts(soft: int, hard: int) -> Iterator[int]:
    """The hard limit.  If there is none, then the system has one of its own, which macOS does not tell."""
    if hard != UNLIMITED:
        if soft < hard:
            yield hard
        return
    wanted = _ENOUGH
    while wanted > soft:
        yield wanted
        wanted //= 2


def left() -> int:
    """The number of descriptors that this process may still open; UNLIMITED if that is unknown."""
    most = limit()
    if most == UNLIMITED:
        return UNLIMITED
    try:
        return most - len(os.listdir(_DESCRIPTORS))
    except OSError as error:
        return 0 if error.errno in EXHAUSTED else UNLIMITED
