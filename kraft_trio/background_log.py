"""A log that never blocks its program: a thread writes the lines to a file descriptor.

The reader of a log may stop reading or go away, and its disk may be full.  A node that waited for it would stop, too.
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
"""The most bytes that wait to be written.  Less important lines may use half of it."""
END_S: Final = 2.0
"""How long `close` waits for the remaining lines."""

_MAX_PARTIAL: Final = 16 * 1024
"""The longest unfinished line, in characters, that is kept back."""
_TICK_S: Final = 1.0
_LINE_OVERHEAD_BYTES: Final = 64

_counting = threading.Lock()
_dropped_in_all = 0


def dropped_lines() -> int:
    """The number of log lines that this process has failed to write so far."""
    return _dropped_in_all


def _count_dropped(lines: int) -> None:
    global _dropped_in_all  # noqa: PLW0603
    with _counting:
        _dropped_in_all += lines


def _missing_lines_notice(lines: int) -> str:
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
        told: Callable[[int], str] = _missing_lines_notice,
    ) -> None:
        """`told` makes the line that reports the number of missing lines."""
        super().__init__()
        self.told = told
        self.summaries: Callable[[], list[str]] = list
        """Called in the thread about once a second; returns lines to add."""
        self.dropped_lines = 0
        """The number of dropped lines so far, whether or not the log has reported them."""
        self._descriptor = descriptor
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        """The size of the waiting lines and of the line that is being written."""
        self._dropped = 0
        """The number of dropped lines that the log has not reported yet."""
        self._closing = False
        self._partial = ""
        """The text after the last newline."""
        self._broken_line = False
        self._thread = threading.Thread(target=self._run, name="kraft-log", daemon=True)
        self._thread.start()

    def put(self, line: str, *, matters: bool = True) -> bool:
        """Queue a line, which ends with a newline.  False if it was dropped."""
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
        """Queue the beginning of an unfinished line.  Does not wait."""
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
        """Wait at most `END_S` until the queued lines are written.  Later lines are dropped."""
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
            self._report_missing_lines()
            for summary in self.summaries():
                self._write(summary.encode(errors="backslashreplace"))
            if is_last:
                return

    def _report_missing_lines(self) -> None:
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
        """False if the operating system refuses the line.  The rest of a line that was cut short is lost."""
        data = memoryview(b"\n" + line if self._broken_line else line)
        written = 0
        try:
            while written < len(data):
                try:
                    written += os.write(self._descriptor, data[written:])
                except BlockingIOError:
                    # The descriptor is non-blocking.  This thread can wait.
                    select.select([], [self._descriptor], [], _TICK_S)
        except (OSError, ValueError):
            self._broken_line = self._broken_line if not written else not data[:written].tobytes().endswith(b"\n")
            return False
        self._broken_line = False
        return True


class BackgroundLogger:
    """The logger that structlog prints with.  Lines of level warning or above may use the whole queue."""

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
