"""Verdicts: what was tried, what was measured, and what was seen that was not to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen
class Verdict:
    """One row of the table in which a script ends."""

    subject: str
    """What was tried."""
    figures: Mapping[str, str] = attrs.field(factory=dict)
    """What was measured, by column."""
    broken: tuple[str, ...] = ()
    """What was not to be, and was seen."""
    held: str = "held"
    """What the table says if nothing is broken."""

    @property
    def text(self) -> str:
        """On one line."""
        return "; ".join(" ".join(line.split()) for line in self.broken) or self.held


def table(what: str, verdicts: Sequence[Verdict]) -> str:
    """In Markdown, its columns aligned; `what` is the title of the first one."""
    columns = list(dict.fromkeys(column for verdict in verdicts for column in verdict.figures))
    rows = [(verdict.subject, *(verdict.figures.get(column, "") for column in columns)) for verdict in verdicts]
    titles = (what, *columns)
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    lines = [
        "| " + " | ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), last]) + " |"
        for row, last in zip([titles, *rows], ["verdict", *(verdict.text for verdict in verdicts)], strict=True)
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|---|")
    return "\n".join(lines)
