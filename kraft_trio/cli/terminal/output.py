"""Printing.  Output often quotes peers, files and records, which must never control the terminal."""

from __future__ import annotations

from typing import Final

import click

from kraft_trio.cli.terminal.escaping import cut, escaped, escaped_lines

MAX_FIELD: Final = 10_000
"""Maximum number of characters of one field, such as a record's value.  JSON output is not cut."""


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines.  Quoted text has passed through `field`, so every newline is our own."""
    click.echo(escaped_lines(text), err=err, nl=nl)


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line, escaping whatever is in it."""
    echo(text.replace("\r", "\\r").replace("\n", "\\n"), err=err)


def field(text: str) -> str:
    """Escape and cut quoted text that is part of a line."""
    return escaped(text, limit=MAX_FIELD)


def one_message(text: str) -> str:
    """Escape an error message that may quote others, with its line breaks replaced by spaces."""
    return field(" ".join(cut(text, limit=2 * MAX_FIELD).splitlines()))


def counted(number: int, noun: str) -> str:
    """The number with its noun: 1 batch, 2 batches."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('ch') else 's'}"
