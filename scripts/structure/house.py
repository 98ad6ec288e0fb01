"""The figures of one checkout: a table, and below it what some of the figures count."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import attrs

from scripts.structure import conversions, duplicates, package, signals
from scripts.structure.documents import generated_words, words
from scripts.structure.passes import passes_of

UNKNOWN: Final = "unknown"


@attrs.frozen
class House:
    """The figures, by what they count, and the lists of what some of them count."""

    figures: dict[str, str]
    lists: dict[str, list[str]]


def house(root: Path) -> House:
    """Measure the checkout at `root`."""
    sources = package.sources_of(root)
    passed = _passes(root)
    return House(
        {**_sizes(sources), **passed.figures, **_mechanisms(sources), **_repetition(sources), **_words(root)},
        {
            "files above 450 lines": _counted(package.long_files(sources)),
            **passed.lists,
            "signals": [f"{path} {owner}: {kind}" for path, owner, kind in signals.signals(sources)],
            "functions of equal shape": [
                " = ".join(f"{path} {name}" for path, name in group) for group in duplicates.same_shapes(sources)
            ],
            "repeated lines": _counted(duplicates.repeated_lines(sources)),
            "words of documents": _counted(words(root)),
            "generated words of documents": _counted(generated_words(root)),
        },
    )


def _sizes(sources: package.Sources) -> dict[str, str]:
    [(folder, files)] = package.folders(sources).most_common(1)
    return {
        "lines": _number(sum(package.lines_of(sources).values())),
        "files": _number(len(sources)),
        "median lines of a file": _number(package.median_lines(sources)),
        "files above 450 lines": _number(len(package.long_files(sources))),
        "files in the largest folder": f"{files} ({folder})",
    }


def _passes(root: Path) -> House:
    """How many files each request passes through.  Without figures if that checkout's simulator differs too much."""
    try:
        passes = passes_of(root)
    except subprocess.CalledProcessError as error:
        return House({}, {"files passed": [error.stderr.strip().splitlines()[-1]]})
    figures, lists = {}, {}
    for name, one in passes.items():
        figures[f"files of one {name}, on the node that answers"] = _number(len(one.there))
        figures[f"files of one {name}, on all nodes"] = _number(len(one.anywhere))
        lists[f"files of one {name}, on the node that answers"] = sorted(one.there)
    return House(figures, lists)


def _mechanisms(sources: package.Sources) -> dict[str, str]:
    found = signals.signals(sources)
    return {
        "classes and functions with signals": _number(len({(path, owner) for path, owner, _ in found})),
        "of them, with a hand-written wait": _number(len(signals.mechanisms(found))),
        "functions that convert parts of messages": _number(len(conversions.conversions(sources))),
    }


def _repetition(sources: package.Sources) -> dict[str, str]:
    return {
        "pairs of functions of equal shape": _number(duplicates.pairs(duplicates.same_shapes(sources))),
        "repeated lines": _number(sum(duplicates.repeated_lines(sources).values())),
    }


def _words(root: Path) -> dict[str, str]:
    return {
        "words of documents": _number(sum(words(root).values())),
        "generated words of documents": _number(sum(generated_words(root).values())),
    }


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"{path}: {count}" for path, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _number(value: int) -> str:
    return f"{value:,}"


def table(now: House, before: House | None = None) -> str:
    """The figures as a table, with those of before in a column of their own."""
    names = now.figures.keys()
    columns = [["what", *names], ["now", *now.figures.values()]]
    if before is not None:
        columns.insert(1, ["before", *(before.figures.get(name, UNKNOWN) for name in names)])
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*padded, strict=True)]
    rule = "|".join("-" * (len(column[0]) + 2) for column in padded)
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])
