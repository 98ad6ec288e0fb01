"""Syncs of files that the kernel makes while this process does something else.

Linux's asynchronous I/O, `io_submit` with IOCB_CMD_FDSYNC, is an fdatasync on a thread of the kernel.  At its end the
kernel makes an eventfd readable.  A thread of this process would need two changes of thread and the interpreter's lock.
Unlike io_uring, the usual profiles of containers allow it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import itertools
import os
import platform
import select
import sys
import threading
from typing import Final, NamedTuple


class _Numbers(NamedTuple):
    """The numbers of the system calls, which have no function in the C library."""

    io_setup: int
    io_getevents: int
    io_submit: int


_NUMBERS: Final = {"x86_64": _Numbers(206, 208, 209), "aarch64": _Numbers(0, 4, 2)}
"""By machine.  Both are little-endian, as the layouts below are."""
_FDSYNC: Final = 3
_TELLS_EVENTFD: Final = 1
_MOST_UNDER_WAY: Final = 64
"""At least so many.  The kernel may refuse further ones."""
_NONE: Final = ctypes.c_long(0)
_ALL: Final = ctypes.c_long(_MOST_UNDER_WAY)


class _Request(ctypes.Structure):
    """`struct iocb`, of linux/aio_abi.h."""

    _fields_ = (
        *(("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_uint32)),
        *(("opcode", ctypes.c_uint16), ("priority", ctypes.c_int16), ("descriptor", ctypes.c_uint32)),
        *(("buffer", ctypes.c_uint64), ("size", ctypes.c_uint64), ("offset", ctypes.c_int64)),
        *(("reserved", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("eventfd", ctypes.c_uint32)),
    )


class _Event(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        *(("data", ctypes.c_uint64), ("request", ctypes.c_uint64)),
        *(("result", ctypes.c_int64), ("result2", ctypes.c_int64)),
    )


class KernelSyncs:
    """The syncs that the kernel makes for this process; made by `kernel_syncs`.  Any thread may call it."""

    def __init__(self, numbers: _Numbers) -> None:
        """Raises OSError if the kernel refuses."""
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._submit, self._get_events = (ctypes.c_long(of) for of in (numbers.io_submit, numbers.io_getevents))
        self._context = ctypes.c_ulong(0)
        self._lock = threading.Lock()
        self._events = (_Event * _MOST_UNDER_WAY)()
        self._ended: dict[int, int] = {}
        """The results that have not been taken, by number."""
        self._numbers = itertools.count(1)
        if self._call(ctypes.c_long(numbers.io_setup), ctypes.c_long(_MOST_UNDER_WAY), ctypes.byref(self._context)):
            raise _os_error()

    def begin(self, descriptor: int, eventfd: int) -> int:
        """Begin an fdatasync of what has been written.  Returns its number, 0 if the kernel does not take it.

        Its end makes `eventfd` readable.  Until it is, nothing else may use it, and until `take` nothing may read it.
        """
        number = next(self._numbers)
        request = _Request(data=number, opcode=_FDSYNC, descriptor=descriptor, flags=_TELLS_EVENTFD, eventfd=eventfd)
        requests = (ctypes.c_void_p * 1)(ctypes.addressof(request))
        return number if self._call(self._submit, self._context, ctypes.c_long(1), requests) == 1 else 0

    def take(self, number: int, eventfd: int) -> None:
        """Wait, blocking, until that sync has ended.  The eventfd is readable then, or a moment later.

        Raises the OSError of the sync.
        """
        result = self._result(number)
        if result is None:
            ends = select.poll()
            ends.register(eventfd, select.POLLIN)
            ends.poll()
            result = self._result(number)
        if result is None:
            raise OSError(errno.EIO, "the kernel does not tell the outcome of a sync")
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def _result(self, number: int) -> int | None:
        """The result of that sync.  None if it has not ended."""
        with self._lock:
            while self._collect() == _MOST_UNDER_WAY:
                pass
            return self._ended.pop(number, None)

    def _collect(self) -> int:
        """Note the results that there are, and return how many.  Does not wait."""
        got = int(self._call(self._get_events, self._context, _NONE, _ALL, self._events, None))
        for place in range(got):
            event = self._events[place]
            self._ended[event.data] = event.result
        return got


def _os_error() -> OSError:
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _opened() -> KernelSyncs | None:
    numbers = _NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None or not hasattr(os, "eventfd"):
        return None
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return None  # A 32-bit process, whose system calls have other numbers.
    try:
        return KernelSyncs(numbers)
    except (OSError, AttributeError):
        return None


kernel_syncs = functools.cache(_opened)
"""Returns those of this process.  None elsewhere than on Linux, and where the kernel refuses."""

if hasattr(os, "register_at_fork"):
    # A child has nothing of its parent's.
    os.register_at_fork(after_in_child=kernel_syncs.cache_clear)
