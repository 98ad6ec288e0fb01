"""Wake-ups of a task by a thread, through a descriptor that the event loop watches: an eventfd, else a pair of sockets.

`new_waiter` returns the descriptor to wait for, non-blocking and closed in programs that are executed.
`wake(waiter, 1)` makes it readable.  `take(waiter)` makes it unreadable again; it raises BlockingIOError if nothing
woke it.  `close_waiter` closes it.  Each raises OSError.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

new_waiter: Callable[[], int]
wake: Callable[[int, int], object]
take: Callable[[int], object]
close_waiter: Callable[[int], object]

_wakers: dict[int, int] = {}
"""Of each waiter that is a socket: the other end."""


def new_socket_waiter() -> int:
    waiter, waker = socket.socketpair()
    waiter.setblocking(False)
    waker.setblocking(False)
    descriptor = waiter.detach()
    _wakers[descriptor] = waker.detach()
    return descriptor


def wake_by_socket(waiter: int, _count: int) -> None:
    os.write(_wakers[waiter], b"\0")


def take_from_socket(waiter: int) -> None:
    if not os.read(waiter, 1):
        raise BrokenPipeError(f"descriptor {waiter}: its other end is closed, and nothing woke it")


def close_socket_waiter(waiter: int) -> None:
    # The waiter's number may be given out again as soon as it is closed.
    waker = _wakers.pop(waiter)
    os.close(waiter)
    os.close(waker)


if sys.platform == "linux" and hasattr(os, "eventfd"):

    def new_eventfd() -> int:
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    new_waiter, wake, take, close_waiter = new_eventfd, os.eventfd_write, os.eventfd_read, os.close
else:
    new_waiter, wake, take, close_waiter = new_socket_waiter, wake_by_socket, take_from_socket, close_socket_waiter
