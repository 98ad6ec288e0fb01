"""The programs in the documents about Spark, with the output that is shown below each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from tests.support.programs import REPOSITORY

DOCUMENTS: Final = tuple(sorted((REPOSITORY / "docs" / "how-to").glob("*spark*.md")))
_PROGRAM = re.compile(r"^```python\n(.*?)^```$(?:[^`]*?^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Program:
    """A block of Python."""

    document: Path
    heading: str
    """Of the section that it stands in."""
    text: str
    output: str
    """The next block, if nothing but prose is between; otherwise empty."""


def programs() -> list[Program]:
    """All programs, in the order of the documents."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        # A comment in a block looks like a heading.
        prose = _FENCED.sub(lambda block: " " * len(block[0]), text)
        headings = [(match.start(), match[1]) for match in _HEADING.finditer(prose)]
        for match in _PROGRAM.finditer(text):
            heading = [name for start, name in headings if start < match.start()][-1]
            found.append(Program(document, heading, match[1], match[2] or ""))
    return found


def program(heading: str) -> Program:
    """The only program below a heading."""
    [found] = [one for one in programs() if one.heading == heading]
    return found
