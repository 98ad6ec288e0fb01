"""Sets up stdin, stdout and stderr, in whatever state the parent process left them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kraft_trio.background_log import BackgroundLog


@contextmanager
def standard_streams(*, in_background: bool) -> Iterator[None]:
    """For a whole process: make sure that the streams are open, and that no text fails because of the locale.

    With `in_background`, never wait for stderr.

    Tracebacks and warnings go the same way as the log, so a node ends in bounded time even if nobody reads its stderr.
    An exception that leaves the block is printed, and the process exits with 1.
    """
    _open_missing_descriptors()
    # A file's name or a peer's text may have any bytes, and a terminal may lack any character.
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
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
        # The interpreter flushes stdout at exit; that must neither wait nor fail.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def abandon_stdout() -> None:
    """Send to /dev/null what stdout still buffers, so that it does not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_missing_descriptors() -> None:
    """Open /dev/null on a free standard descriptor.  Otherwise the next file or socket would get that number, and
    output would go there.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)
            assert opened == descriptor, f"{os.devnull} opened as {opened}, descriptor {descriptor} is free"
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
