"""A file that is written by a thread of its own: whoever appends to it never waits, and never hears of a bad disk."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from typing import Final

import structlog
import trio

from kraft_trio.storage.created_files import open_own

log = structlog.get_logger(__name__)

LIMIT_BYTES: Final = 8 * 1024 * 1024
"""How much may wait to be written, memory that is."""

INTERVAL_S: Final = 0.2
"""How long an append waits for others before it is written, at most."""

_AT_ONCE_BYTES: Final = 256 * 1024
"""What is not kept waiting for more."""

_RETRY_S: Final = 1.0
"""After which a write that failed is tried again."""

_END_S: Final = 5.0
"""How long the end waits for what is to be written still: a disk that hangs must not keep the process."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class BackgroundFile:
    """Appends whole records to a file that is made anew; one that was there keeps its content under another name.

    What was appended is with the operating system after INTERVAL_S; it is never fsynced.  Where it cannot be written,
    the file is cut back to its last whole record, the log says so once, and it is tried again as long as the process
    lives, and once more at the end; what has no room meanwhile is refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> None:
        """Raises OSError where the file cannot be made, unless that is because the disk is full."""
        self._path = os.fspath(path)
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._size = 0
        """Bytes waiting or being written."""
        self._closing = False
        self._has_said = False
        self._end = 0
        """Of the last whole record in the file."""
        self._descriptor: int | None = None
        try:
            self._descriptor = _made(self._path)
        except OSError as error:
            if error.errno not in _FULL:
                raise
        self._thread = threading.Thread(target=self._run, name=f"trace {self._path}", daemon=True)
        self._thread.start()

    def append(self, record: bytes, *, is_last: bool = False) -> bool:
        """Have a record written; False where too much waits already, and it will not be.

        For what `is_last` there is always room; after `close` there is none for anything.
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
        """Wait until all is written, for a few seconds at most, also where cancelled; nothing more is taken."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        with trio.move_on_after(_END_S, shield=True):
            # None of Trio's own threads, which may all be taken.
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
        """Until it is written; False where the end has come and it could not be: nothing may stand behind the hole."""
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
            pass  # What is no regular file has no end.

    def _say(self, error: OSError) -> None:
        if not self._has_said:
            self._has_said = True
            with suppress(OSError):  # Where the log goes, there may be no room either.
                log.warning(
                    "trace cannot be written",
                    path=self._path,
                    reason=error.strerror,
                    what="tried again; the node runs on",
                )


def _made(path: str) -> int:
    """A new file, open to append to it; a file of that name has another one from now on.  Raises OSError."""
    if os.path.isfile(path) and os.path.getsize(path):
        number = 1
        while os.path.lexists(f"{path}.{number}"):
            number += 1
        os.rename(path, f"{path}.{number}")
    return open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
