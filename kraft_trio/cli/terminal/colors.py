"""Whether a stream is a terminal that takes colours: NO_COLOR, FORCE_COLOR and TERM=dumb have their usual meanings."""

from __future__ import annotations

import os
from typing import Protocol


class _Stream(Protocol):
    def isatty(self) -> bool: ...


def is_terminal(stream: _Stream) -> bool:
    """Whether it is a terminal that can be more than written to, line by line."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def takes_colors(stream: _Stream) -> bool:
    """A variable that is empty counts as not set; NO_COLOR wins."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)
