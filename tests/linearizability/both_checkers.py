"""Histories for both checkers at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kraft_trio.simulation.facts.history_file import Entry, write_history
from scripts.linearizability.go_program import problems_of
from scripts.linearizability.models import violations


def count_wrong(porcupine: Path, folder: Path, histories: Iterable[list[Entry]]) -> int:
    """The number of histories that are not linearizable.  Asserts that both checkers name the same ones."""
    paths: list[Path] = []
    wrong: list[Path] = []
    for number, entries in enumerate(histories):
        path = folder / f"{number}.jsonl"
        write_history(path, entries)
        paths.append(path)
        if list(violations(entries)):
            wrong.append(path)
    assert sorted(problems_of(porcupine, paths)) == sorted(wrong)
    return len(wrong)
