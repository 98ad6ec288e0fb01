"""Text of others, made fit for a log and for a terminal: bounded, on one line, and without a power over either.

Client ids, topic names, hosts, error messages and record contents are whatever a stranger sends.  Written as they are,
they could clear the screen, forge further lines, or hide what they say behind invisible and reordering characters.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TEXT: Final = 1_000
"""Characters of one text that a log or an error message shows."""

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Of no width, though `str.isprintable` lets them pass."""


def escaped(text: str, *, limit: int = MAX_TEXT) -> str:
    """One line that shows `text`: control, format, reordering and invisible characters as escapes, cut at `limit`."""
    return _escaped(cut(text, limit=limit))


def escaped_lines(text: str) -> str:
    """Like `escaped`, for text of several lines, of any length; the newlines and tabs stay."""
    # Piece by piece, because most need no escapes, which is seen without looking at each character.
    return "\n".join("\t".join(map(_escaped, line.split("\t"))) for line in text.split("\n"))


def cut(text: str, *, limit: int = MAX_TEXT) -> str:
    """`text`, or its beginning and how many characters are missing."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def _escaped(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escape(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
