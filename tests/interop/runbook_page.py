"""docs/how-to/runbook.md as data: its variables, and the commands of each incident."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "runbook.md"

KAFKA, KRAFT = "kafka", "kraft"
"""The columns."""


@attrs.frozen
class Step:
    """One row: what it is for, and each column's command.

    A column in which the other's command is to be run has that one.  A column in which nothing is to be run has none,
    and neither has the row of something that is done by hand.
    """

    what: str
    commands: Mapping[str, str]

    @property
    def is_look(self) -> bool:
        """Whether it only reads, and may fail while there is an incident."""
        return self.what.startswith("see ")

    @property
    def is_check(self) -> bool:
        """Whether it only reads, after a repair."""
        return self.what.startswith("check ")


@attrs.frozen
class Page:
    """`variables` are those that the reader sets, with examples.

    `incidents` are the rows of each table by the title above it.
    """

    variables: Mapping[str, str]
    incidents: Mapping[str, Sequence[Step]]


def read_page() -> Page:
    """Parse the page as it is.  The second table of a section has the section's title and a plus sign."""
    text = PAGE.read_text()
    [declared] = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    incidents: dict[str, Sequence[Step]] = {}
    title = ""
    for heading, table in re.findall(r"^##+ (.+)\n|^\| step \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        if heading:
            title = heading
        else:
            incidents[title if title not in incidents else f"{title} +"] = [_step(row) for row in table.splitlines()]
    return Page(dict(re.findall(r"^(\w+)=(\S+) ", declared, re.MULTILINE)), incidents)


def _step(row: str) -> Step:
    what, kafka, kraft = (cell.strip() for cell in row.strip("|").split(" | "))
    commands = {column: _command(cell) for column, cell in ((KAFKA, kafka), (KRAFT, kraft))}
    if kafka == "none":
        commands[KAFKA] = commands[KRAFT]
    if kraft == "the same":
        commands[KRAFT] = commands[KAFKA]
    return Step(what, {column: command for column, command in commands.items() if command is not None})


def _command(cell: str) -> str | None:
    if cell in ("the same", "none", "\N{EN DASH}"):
        return None
    found = re.fullmatch(r"`(.+)`", cell)
    assert found is not None, cell
    return found[1]
