"""Which systems are supported: those with POSIX files, locks and signals, so all but Windows."""

from __future__ import annotations

from kraft_trio.errors import UnsupportedSystemError


def no_windows(what: str) -> UnsupportedSystemError:
    """The error to raise on Windows when a module is imported that does that."""
    return UnsupportedSystemError(
        f"Windows is not supported for {what}; expected Linux, macOS or FreeBSD (docs/reference/systems.md)"
    )
