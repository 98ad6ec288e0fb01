"""docs/reference/kips.md: every statement of the KIPs is found somewhere, or says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from kraft_trio.cli import kraft
from kraft_trio.config import KEYS
from kraft_trio.metrics.definitions import METRICS
from tests.test_documentation import REPOSITORY, names_of_tests, resolve

TABLES = (REPOSITORY / "docs" / "reference" / "kips.md").read_text()
DOCUMENTS = (
    "KIP-595",
    "KIP-642",
    "KIP-853, accepted",
    "KIP-853, the draft under discussion",
    "KIP-853, the draft compared",
)
NAMES = {key.name for key, _default in KEYS} | {metric.name for metric in METRICS}

_REFERENCE = re.compile(r"`([^`]+)`|\[[^\]]+\]\([^)]+\)")
_REASON = re.compile(r"Superseded( by|:) \S|Not built: \S")


def rows(text: str) -> list[list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in cells if row[0] not in ("statement", "---")]


def has_command(text: str) -> bool:
    """Whether `kraft` has that sub-command, with that option at its end if one is given."""
    _kraft, *words = text.split()
    command: click.Command | None = kraft
    for word in words:
        if word.startswith("--"):
            return word == words[-1] and command is not None and any(word in each.opts for each in command.params)
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
    return command is not None


def exists(reference: str) -> bool:
    if reference.startswith("kraft "):
        return has_command(reference)
    if "::" in reference:
        file, _, name = reference.partition("::")
        path = Path(REPOSITORY / "tests" / file)
        return path.exists() and name in names_of_tests(path)
    if reference in NAMES:
        return True
    try:
        resolve(reference)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_row_leads_somewhere_or_gives_a_reason(document: str) -> None:
    found = rows(TABLES.partition(f"\n## {document}\n")[2].partition("\n## ")[0])
    assert len(found) > 10
    for row in found:
        assert len(row) == 3, row
        _statement, where, remark = row
        assert not _REFERENCE.sub("", where).strip(", "), f"only references say where: {row}"
        assert where or _REASON.match(remark), row


def test_every_document_is_read() -> None:
    assert tuple(re.findall(r"^## (.*)$", TABLES, re.MULTILINE)) == DOCUMENTS


def test_what_the_rows_name_exists() -> None:
    named = [reference for _, where, _ in rows(TABLES) for reference in _REFERENCE.findall(where) if reference]
    assert len(named) > 200
    assert [reference for reference in named if not exists(reference)] == []


@pytest.mark.parametrize(
    "reference",
    [
        "kraft features upgrade --no-such-option",
        "kraft no-such-command",
        "kraft storage format sub",
        "protocol.votes.no_such_function",
        "protocol.no_such_module",
        "no.such.key",
        "no-such-metric",
        "actors/test_elections.py::test_no_such",
        "actors/test_no_such.py::test_no_such",
    ],
)
def test_what_does_not_exist_is_noticed(reference: str) -> None:
    assert not exists(reference)
