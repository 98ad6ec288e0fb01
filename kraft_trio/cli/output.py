"""What commands print.  Much of it is the words of others: peers, files, records; no terminal obeys them here."""

from __future__ import annotations

from typing import Final

import click

from kraft_trio.cli.escaping import cut, escaped, escaped_lines

MAX_FIELD: Final = 10_000
"""Characters of one field, a record's value for example; JSON has all of it."""


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines.  What others said has gone through `field` before: a newline here is our own."""
    click.echo(escaped_lines(text), err=err, nl=nl)


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever is in it."""
    echo(text.replace("\r", "\\r").replace("\n", "\\n"), err=err)


def field(text: str) -> str:
    """The words of others, as a part of a line."""
    return escaped(text, limit=MAX_FIELD)


def one_message(text: str) -> str:
    """What is wrong, perhaps in the words of others: on one line, its own line breaks as blanks."""
    return field(" ".join(cut(text, limit=2 * MAX_FIELD).splitlines()))
