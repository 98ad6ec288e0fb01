"""The operating system's reason for a failed connection, taken out of the errors that wrap it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator


def os_reason(error: BaseException) -> str:
    """The system's distinct reasons behind the error, or the error's own text if there are none."""
    causes = dict.fromkeys(map(_text, _innermost(error)))
    return ", ".join(causes) or str(error)


def _innermost(error: BaseException | None) -> Iterator[OSError]:
    """The OSErrors that were not caused by another OSError."""
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _innermost(member)
    elif error is not None:
        inner = list(_innermost(error.__cause__))
        # An error of TLS is an OSError, too, but its number is not the system's.
        yield from inner or ([error] if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else [])


def _text(error: OSError) -> str:
    """A failed name lookup has error numbers below zero, and texts of its own."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
