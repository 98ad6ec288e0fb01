"""The table in RESULTS.md: which invariant finds which mutant, in which run, and how soon (scripts/mutants)."""

from __future__ import annotations

import sys
from pathlib import Path

from kraft_trio.simulation.invariants import INVARIANTS

from . import MUTANTS, Found, Mutant

DOCUMENT = Path(__file__).parent / "RESULTS.md"
BEGIN, END = "<!-- mutants -->\n", "<!-- end of mutants -->"
NAMES = {0: "demands on every run"} | {invariant.number: invariant.__name__ for invariant in INVARIANTS}
TITLES = ("rule", "mutant", "run", "invariant", "seed", "virtual s", "CPU s")


def table_names(text: str) -> list[str]:
    """The mutants in the table, in its order."""
    return list(table_seeds(text))


def table_seeds(text: str) -> dict[str, int]:
    """The first seed that finds each mutant, in the order of the table."""
    rows = [line for line in text[text.index(BEGIN) : text.index(END)].splitlines() if line.startswith("| ")]
    cells = [row.split(" | ") for row in rows[1:]]
    return {row[TITLES.index("mutant")]: int(row[TITLES.index("seed")]) for row in cells}


def table(found: dict[str, Found]) -> str:
    """The text with the table; every mutant has been found."""
    rows = [_row(MUTANTS[name], one) for name, one in found.items()]
    cpu_s = sum(one.cpu_s for one in found.values())
    return "\n".join(
        [
            f"{len(found)} mutants in {cpu_s:.0f} s of CPU time. The demands on every run are that no node ends",
            "by itself, that a quorum without faults makes progress, and that a scenario meets its expectations.",
            "Virtual time counts from the start of the run that finds the mutant, CPU time from the start of the",
            "first seed.",
            "",
            f"| {' | '.join(TITLES)} |",
            f"|{'---|' * len(TITLES)}",
            *rows,
            "",
        ]
    )


def _row(mutant: Mutant, found: Found) -> str:
    violation = found.violation
    cells = (
        mutant.breaks,
        mutant.name,
        mutant.run.name,
        NAMES[violation.invariant],
        str(found.seed),
        f"{violation.time_s:.2f}",
        f"{found.cpu_s:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    found: dict[str, Found] = {}
    for name, mutant in MUTANTS.items():
        one = mutant.hunt()
        if one is None or one.violation.invariant not in mutant.found_by:
            sys.exit(f"{name}: {'not found' if one is None else one.violation}")
        found[name] = one
        print(_row(mutant, one), flush=True)
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(text[:begin] + table(found) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
