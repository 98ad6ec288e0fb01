"""How the content of a file that cannot be read appears in a message: short, and without runs of zeros."""

from __future__ import annotations

from typing import Final

SHOWN_BYTES: Final = 60


def blank_text(data: bytes) -> str | None:
    """Say that a file is empty, or has only zero bytes or white space; None if it has more."""
    if not data:
        return "empty"
    if not data.strip(b"\0"):
        return f"{len(data)} zero bytes"
    return None if data.strip() else "only white space"


def shown(data: bytes | str) -> str:
    """Enough of a text, in quotes, to be recognized; or that it has only zeros."""
    if isinstance(data, str):
        data = data.encode("utf-8", "backslashreplace")
    if len(data) > 1 and not data.strip(b"\0"):
        return f"{len(data)} zero bytes"
    text = repr(data[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    return text if len(data) <= SHOWN_BYTES else f"{text}…"
