"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    head, *body = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in (titles, *rows))
    return "".join((head, "|" + "---|" * len(titles) + "\n", *body))


def first_sentence(docstring: str) -> str:
    return re.split(r"(?<=\.)(?<!i\.e\.) ", " ".join(docstring.split()))[0]
