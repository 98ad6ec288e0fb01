"""The documentation says what the code says: generated parts, and the functions and tests that it names."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from docs.public_api import public_api
from kraft_trio.config import KEYS
from kraft_trio.protocol.roles import TRANSITIONS

REPOSITORY = Path(__file__).parent.parent
DOCS = REPOSITORY / "docs"
DOCUMENTS = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
CATALOGUE = REPOSITORY / "tests" / "data" / "kafka-membership-tests.md"

_TEST = re.compile(r"`([\w/]+\.py)::([\w:]+)`")
_FUNCTION = re.compile(r"`((?:protocol|actors|storage|wire|cli|client)\.[\w.]+)`")
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|work|root|Users|tmp)/")


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    """`test_x` and `TestY::test_x` of a test file, and names given to hypothesis state machines."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{member.name}" for member in node.body if hasattr(member, "name")}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in names if name.split("::")[-1].lower().startswith("test"))


def resolve(dotted: str) -> Any:
    """The object that `kraft_trio.<dotted>` names.  Raises AttributeError."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(["kraft_trio", *parts[:length]])
        if (REPOSITORY / name.replace(".", "/")).with_suffix(".py").exists():
            found: Any = importlib.import_module(name)
            for part in parts[length:]:
                found = getattr(found, part)
            return found
    raise AttributeError(f"no module in {dotted}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_generated_parts_are_up_to_date(document: Path) -> None:
    text = document.read_text()
    assert generate.regenerated(text, document) == text, "run: .venv/bin/python -m docs.generate"


def test_the_public_api_is_as_frozen() -> None:
    assert public_api() == generate.PUBLIC_API.read_text(), "run: .venv/bin/python -m docs.generate"


def test_the_transition_diagram_has_every_row() -> None:
    _fence, first, *rows, _end = generate.transitions().splitlines()
    assert first == "stateDiagram-v2"
    assert len(rows) == len(TRANSITIONS) == len(set(rows))
    assert "    Prospective --> Candidate: pre vote won, epoch + 1 *" in rows
    assert "    Follower --> Prospective: fetch timed out" in rows


def test_architecture_lists_the_layers_that_are_enforced() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    enforced = [
        (str(level), name.strip().removeprefix("kraft_trio."))
        for level, layer in enumerate(contracts[0]["layers"], 1)
        for name in layer.split(":")
    ]
    section = (DOCS / "explanation" / "architecture.md").read_text().partition("## Layers")[2].partition("## ")[0]
    assert re.findall(r"^\| (\d+) \| `(\w+)` \|", section, re.MULTILINE) == enforced


def test_reference_lists_every_key_with_its_default() -> None:
    text = (DOCS / "reference" / "configuration.md").read_text()
    for key, default in KEYS:
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{key.name}` |")]
        assert ("must be set" if default is None else default) in row
        assert key.meaning.replace("](docs/", "](../") in row


@pytest.mark.parametrize("document", [*DOCUMENTS, CATALOGUE], ids=lambda document: document.name)
def test_the_tests_that_are_named_exist(document: Path) -> None:
    for file, name in _TEST.findall(document.read_text()):
        assert name in names_of_tests(REPOSITORY / "tests" / file), f"{file}::{name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_the_functions_that_are_named_exist(document: Path) -> None:
    for dotted in _FUNCTION.findall(document.read_text()):
        if not dotted.endswith((".py", ".md")):
            resolve(dotted)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_no_blank_line_cuts_a_table_in_two(document: Path) -> None:
    assert re.findall(r"^\n(\|.*)\n(?!\| ?---)", document.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_no_path_of_one_machine_is_written_down(document: Path) -> None:
    assert _MACHINE_PATH.search(document.read_text()) is None


def test_every_log_event_that_is_explained_is_logged() -> None:
    """With the level that the page gives it, info where it gives none."""
    section = (DOCS / "reference" / "messages.md").read_text().partition("## Logs")[2].partition("## Error messages")[0]
    rows = re.findall(r"^\| (`.*?`)(?: \((\w+)\))? \|", section, re.MULTILINE)
    assert len(rows) > 10
    source = "\n".join(path.read_text() for path in sorted((REPOSITORY / "kraft_trio").rglob("*.py")))
    for cell, level in rows:
        for event in re.findall(r"`([^`]+)`", cell):
            assert re.search(rf"log\.{level or 'info'}\(\s*\"{re.escape(event)}\"", source), (event, level)
