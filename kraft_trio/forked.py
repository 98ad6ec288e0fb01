"""What a forked child must not share with its parent: the locks, files and sockets of nodes, and their use.

A child has copies of all descriptors.  While it lived, the lock of a node's directory would stay held after the end of
the node, and its port bound.  What it wrote would go into the parent's files and connections.  So the child closes its
copies before it runs any code of the application, and calls of the node raise RuntimeError there.

Programs that a process starts get none of them, because Python makes descriptors close when a program is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_owners: Final[WeakKeyDictionary[Any, Callable[[Any], object]]] = WeakKeyDictionary()


def when_forked(owner: T, close: Callable[[T], object]) -> None:
    """Call `close(owner)` in each child that is forked, if the owner lives then.

    Only the thread that forked exists there, and locks may be held for ever: `close` must take none, and must not fail.
    """
    _owners[owner] = close


def refuse_in_child(called: str) -> NoReturn:
    """Raises RuntimeError."""
    raise RuntimeError(
        f"{called}: called in a forked child (process {os.getpid()}) of the node's process; expected a call there, or "
        "a node that the child opens itself, on a directory of its own"
    )


def _close_all() -> None:
    owners = list(_owners.items())
    _owners.clear()
    for owner, close in owners:
        close(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
