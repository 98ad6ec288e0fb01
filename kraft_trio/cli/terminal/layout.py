"""Layouts of lines and tables that several commands print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from kraft_trio.cli.terminal.escaping import escaped
from kraft_trio.cli.terminal.output import field

_LABEL_WIDTH = 24
_MAX_STATUS = 1_000_000
"""Maximum number of characters of one line, such as the voters with their endpoints."""


def labelled(label: str, text: str) -> str:
    """One line of a status."""
    return f"{label + ':':<{_LABEL_WIDTH}}{escaped(text, limit=_MAX_STATUS)}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with columns as wide as needed.  The first row holds the titles.

    If stdout is a narrower terminal, each row becomes lines of a title and a cell instead, with an empty line between.
    """
    rows = [[field(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        titles, *others = rows
        return "\n\n".join("\n".join(map(labelled, titles, row)) for row in others)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
