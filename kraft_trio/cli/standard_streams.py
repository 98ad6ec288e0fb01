"""What a command's stdout and stderr are, whatever state whoever started it left them in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kraft_trio.background_log import BackgroundLog


@contextmanager
def standard_streams(*, in_background: bool) -> Iterator[None]:
    """For a whole process: stdout and stderr are there, and with `in_background` nothing waits for stderr.

    Tracebacks and warnings go the same way as the log, so a node ends in bounded time though nobody reads its stderr.
    An exception that leaves the block is told, and ends the process with 1.
    """
    _open_missing_descriptors()
    if not in_background:
        yield
        return
    stderr = sys.stderr = BackgroundLog(sys.stderr.fileno())
    try:
        yield
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        stderr.close()
        # The interpreter flushes it at the end: that must neither wait nor fail.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _open_missing_descriptors() -> None:
    """A file or socket opened later would else have the number of a standard stream, and be written to as such."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)
            assert opened == descriptor, f"{os.devnull} opened as {opened}, descriptor {descriptor} is free"
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
