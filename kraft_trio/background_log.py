"""A log that never makes its program wait: lines go to a file descriptor from a thread of their own.

Whatever reads the log may stop reading, go away, or have no room.  A node that waited for it would stop with it.
"""

from __future__ import annotations

import io
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

LIMIT_BYTES: Final = 1024 * 1024
"""What may wait to be written; lines that matter less may take half of it."""
END_S: Final = 2.0
"""How long the end waits for lines that have not been written."""

_MAX_PARTIAL: Final = 16 * 1024
"""Characters of a line whose end is awaited."""
_TICK_S: Final = 1.0
_LINE_OVERHEAD_BYTES: Final = 64

_counting = threading.Lock()
_dropped_in_all = 0


def dropped_lines() -> int:
    """How many lines of the log this process could not write so far."""
    return _dropped_in_all


def _count_dropped(lines: int) -> None:
    global _dropped_in_all  # noqa: PLW0603
    with _counting:
        _dropped_in_all += lines


def _told_in_plain_text(lines: int) -> str:
    return f"{lines} lines of the log are missing here: they could not be written\n"


class BackgroundLog(io.TextIOBase):
    """A text stream that never blocks: a daemon thread writes to the file descriptor.

    Any thread may write.  Lines without room in the queue are dropped and counted, and so are lines that the operating
    system refuses, for example because the disk is full.  The next line that can be written says how many are missing.
    Owns the thread but not the descriptor.  `close` and the end of the process wait two seconds at most.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        limit_bytes: int = LIMIT_BYTES,
        told: Callable[[int], str] = _told_in_plain_text,
    ) -> None:
        """`told` makes the line that says how many are missing."""
        super().__init__()
        self.told = told
        self.summaries: Callable[[], list[str]] = list
        """Asked about once a second for lines to add, in the thread."""
        self.dropped_lines = 0
        """So far, whether or not the log says so."""
        self._descriptor = descriptor
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        """Of the lines that wait, and of the one that is being written."""
        self._dropped = 0
        """Lines of which the log does not say yet that they are missing."""
        self._closing = False
        self._partial = ""
        """What was written after the last newline."""
        self._broken_line = False
        self._thread = threading.Thread(target=self._run, name="kraft-log", daemon=True)
        self._thread.start()

    def put(self, line: str, *, matters: bool = True) -> bool:
        """Have a line written, newline included; False where it was dropped."""
        data = line.encode(errors="backslashreplace")
        size = len(data) + _LINE_OVERHEAD_BYTES
        with self._changed:
            if self._closing or self._size + size > (self._limit_bytes if matters else self._limit_bytes // 2):
                self._drop(1)
                return False
            self._waiting.append(data)
            self._size += size
            self._changed.notify_all()
            return True

    # A text stream: for sys.stderr, and for loggers that print

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with self._changed:
            lines, newline, self._partial = (self._partial + text).rpartition("\n")
            if newline:
                self.put(lines + newline)
            if len(self._partial) > _MAX_PARTIAL:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Have the beginning of a line written; waits for nothing."""
        with self._changed:
            partial, self._partial = self._partial, ""
            if partial:
                self.put(partial)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        try:
            return os.isatty(self._descriptor)
        except OSError:
            return False

    @property
    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Write what waits, for `END_S` at most; what is written after that is dropped."""
        if self.closed:
            return
        self.flush()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(END_S)
        super().close()

    # In the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing, _TICK_S)
                is_last = self._closing and not self._waiting
                line = self._waiting.popleft() if self._waiting else b""
            if line:
                was_written = self._write(line)
                with self._changed:
                    self._size -= len(line) + _LINE_OVERHEAD_BYTES
                    if not was_written:
                        self._drop(1)
                    self._changed.notify_all()
                if self._waiting:
                    continue
            self._write_what_is_missing()
            for summary in self.summaries():
                self._write(summary.encode(errors="backslashreplace"))
            if is_last:
                return

    def _write_what_is_missing(self) -> None:
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        if dropped and not self._write(self.told(dropped).encode(errors="backslashreplace")):
            with self._changed:
                self._dropped += dropped

    def _drop(self, lines: int) -> None:
        self._dropped += lines
        self.dropped_lines += lines
        _count_dropped(lines)

    def _write(self, line: bytes) -> bool:
        """False where the operating system does not take it; of a line that was cut short the rest is gone."""
        data = memoryview(b"\n" + line if self._broken_line else line)
        written = 0
        try:
            while written < len(data):
                try:
                    written += os.write(self._descriptor, data[written:])
                except BlockingIOError:
                    # Whoever made the descriptor wants nobody to wait for it; this thread has the time.
                    select.select([], [self._descriptor], [], _TICK_S)
        except (OSError, ValueError):
            self._broken_line = self._broken_line if not written else not data[:written].tobytes().endswith(b"\n")
            return False
        self._broken_line = False
        return True


class BackgroundLogger:
    """What structlog prints with: a line of level warning or above takes precedence where there is little room."""

    def __init__(self, log: BackgroundLog) -> None:
        self._log = log

    def msg(self, message: str) -> None:
        self._log.put(message + "\n", matters=False)

    debug = info = msg

    def warning(self, message: str) -> None:
        self._log.put(message + "\n")

    warn = error = exception = critical = fatal = failure = err = log = warning


def background_logger_factory(log: BackgroundLog) -> Callable[..., Any]:
    """Return a `logger_factory` for structlog that writes to a BackgroundLog."""
    logger = BackgroundLogger(log)
    return lambda *_: logger
