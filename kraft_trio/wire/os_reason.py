"""What the operating system says of a connection that could not be made, out of the errors wrapped around it."""

from __future__ import annotations

import os
from collections.abc import Iterator


def os_reason(error: BaseException) -> str:
    """The system's words, each once, where it is behind the error; else the error's own text."""
    causes = dict.fromkeys(map(_text, _innermost(error)))
    return ", ".join(causes) or str(error)


def _innermost(error: BaseException | None) -> Iterator[OSError]:
    """The OSErrors that no other one caused."""
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _innermost(member)
    elif error is not None:
        inner = list(_innermost(error.__cause__))
        yield from inner or ([error] if isinstance(error, OSError) else [])


def _text(error: OSError) -> str:
    """A failed name look-up has its own numbers, below zero, and words."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
