"""Descriptors kept aside, so that the disk's own files can be opened when the process has none left."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from kraft_trio.storage.disk.created_files import FILE_MODE, open_own
from kraft_trio.system.descriptors import EXHAUSTED
from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("a node's files")

SPARE: Final = 8
LEFT_FOR_CONNECTIONS: Final = 64
"""The log starts no new segment if fewer descriptors than this are left.  Otherwise a log of many small segments would
use them all, and no peer could connect."""


class SpareDescriptors:
    """Opens files; may be called from any thread.  Other code in the process cannot take the spare ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: list[int] = []
        self._refill()

    def open(self, path: str, flags: int) -> int:
        """Like `os.open`, but frees a spare descriptor if the process has none left.  Raises OSError."""
        return self._opened(lambda: os.open(path, flags))

    def open_own(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """Like `created_files.open_own`, with the same help."""
        return self._opened(lambda: open_own(path, flags, mode))

    def _opened(self, attempt: Callable[[], int]) -> int:
        while True:
            try:
                descriptor = attempt()
            except OSError as error:
                if error.errno not in EXHAUSTED or not self._release_one():
                    raise
            else:
                if len(self._spare) < SPARE:
                    self._refill()
                return descriptor

    def close(self) -> None:
        while self._release_one():
            pass

    def _release_one(self) -> bool:
        with self._lock:
            if not self._spare:
                return False
            os.close(self._spare.pop())
            return True

    def _refill(self) -> None:
        with self._lock:
            while len(self._spare) < SPARE:
                try:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return
