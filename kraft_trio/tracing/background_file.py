"""A file with a writer thread of its own: callers that append never wait and never see a disk error."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from typing import Final

import trio

from kraft_trio.logs import get_logger
from kraft_trio.storage.disk.created_files import open_own

log = get_logger(__name__)

LIMIT_BYTES: Final = 8 * 1024 * 1024
"""The most bytes in memory that wait to be written."""

INTERVAL_S: Final = 0.2
"""The longest time for which an append waits for others before it is written."""

_AT_ONCE_BYTES: Final = 256 * 1024
"""As soon as this many bytes wait, they are written."""

_RETRY_S: Final = 1.0
"""Delay before a failed write is tried again."""

_END_S: Final = 5.0
"""How long `close` waits for the remaining writes.  A disk that hangs must not keep the process alive."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class BackgroundFile:
    """Appends whole records to a new file.  An existing file of that name is renamed.

    Records reach the operating system within INTERVAL_S; they are never fsynced.  After a failed write, the thread cuts
    the file back to its last whole record and logs the failure once.  It tries again while the process lives, and once
    more in `close`.  Meanwhile, records for which there is no room are refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> None:
        """Raises OSError if the file cannot be created, unless the reason is a full disk."""
        self._path = os.fspath(path)
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._size = 0
        """The number of bytes that wait or are being written."""
        self._closing = False
        self._has_said = False
        self._end = 0
        """The end of the last whole record in the file."""
        self._descriptor: int | None = None
        try:
            self._descriptor = _made(self._path)
        except OSError as error:
            if error.errno not in _FULL:
                raise
        self._thread = threading.Thread(target=self._run, name=f"trace {self._path}", daemon=True)
        self._thread.start()

    def append(self, record: bytes, *, is_last: bool = False) -> bool:
        """Queue a record for writing.  False if it is refused, because there is no room or the file is closed.

        There is always room for a record that `is_last`.
        """
        with self._changed:
            if self._closing or (not is_last and self._size + len(record) > self._limit_bytes):
                return False
            was_empty = not self._size
            self._waiting.append(record)
            self._size += len(record)
            if was_empty or self._size >= _AT_ONCE_BYTES:
                self._changed.notify()
            return True

    async def close(self) -> None:
        """Refuse further records and wait a few seconds, even if cancelled, until the earlier ones are written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        with trio.move_on_after(_END_S, shield=True):
            # A limiter of its own, because all threads of Trio's default limiter may be in use.
            limiter = trio.CapacityLimiter(1)
            await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True, limiter=limiter)

    # In the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                self._changed.wait_for(lambda: self._closing or self._size >= _AT_ONCE_BYTES, INTERVAL_S)
                records, self._waiting = self._waiting, []
                is_last = self._closing
            if not self._write_all(b"".join(records)) or is_last:
                break
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _write_all(self, data: bytes) -> bool:
        """Try until the data is written.  False if `close` ends that: nothing may follow the missing records."""
        while data:
            is_last_attempt = self._closing
            try:
                self._write(data)
            except OSError as error:
                self._say(error)
                if is_last_attempt:
                    return False
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, _RETRY_S)
            else:
                break
        with self._changed:
            self._size -= len(data)
        return True

    def _write(self, data: bytes) -> None:
        if self._descriptor is None:
            self._descriptor = _made(self._path)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, memoryview(data)[written:])
        except OSError:
            self._cut_back(self._descriptor)
            raise
        self._end += len(data)

    def _cut_back(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, self._end)
        except OSError:
            pass  # Not a regular file: there is nothing to cut.

    def _say(self, error: OSError) -> None:
        if not self._has_said:
            self._has_said = True
            with suppress(OSError):  # The log may be on the same full disk.
                log.warning(
                    "trace cannot be written",
                    path=self._path,
                    reason=error.strerror,
                    what="tried again; the node runs on",
                )


def _made(path: str) -> int:
    """Create a file and open it for appending, after renaming a file of that name.  Raises OSError."""
    if os.path.isfile(path) and os.path.getsize(path):
        number = 1
        while os.path.lexists(f"{path}.{number}"):
            number += 1
        os.rename(path, f"{path}.{number}")
    return open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
