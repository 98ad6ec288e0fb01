"""What happens to the names in a directory while another process works in it, as Linux tells it (inotify)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Iterator
from enum import IntFlag
from pathlib import Path
from types import TracebackType

import attrs

from harness.waiting import Overdue

_libc = ctypes.CDLL(None, use_errno=True)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class Change(IntFlag):
    """The kernel's own numbers."""

    MODIFIED = 0x2
    RENAMED_FROM = 0x40
    RENAMED_TO = 0x80
    CREATED = 0x100
    REMOVED = 0x200


@attrs.frozen
class Event:
    """One change of one file."""

    change: Change
    name: str


class DirectoryEvents:
    """All changes in a directory, in order, from the construction until the block is left."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        wanted = Change.MODIFIED | Change.RENAMED_FROM | Change.RENAMED_TO | Change.CREATED | Change.REMOVED
        if _libc.inotify_add_watch(self._descriptor, os.fsencode(directory), int(wanted)) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(directory))

    def __enter__(self) -> DirectoryEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def within(self, seconds: float) -> Iterator[Event]:
        """Yield events as they come, until the caller stops.  Raises Overdue when the time is up."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._descriptor], [], [], left)[0]:
                raise Overdue(f"{self._directory}: not what was waited for within {seconds:g} s")
            yield from self._read()

    def _read(self) -> Iterator[Event]:
        data = os.read(self._descriptor, _READ_BYTES)
        position = 0
        while position < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            name = data[position : position + length].rstrip(b"\0").decode()
            position += length
            assert not mask & 0x4000, "the kernel's queue of events ran over"
            change = Change(mask & 0x3C2)
            if change and name:
                yield Event(change, name)
