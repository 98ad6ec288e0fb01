"""No module of `kraft_trio` imports itself by way of others.

Every import statement counts, wherever it stands: at the top, in a function, in a branch of `if TYPE_CHECKING`.  An
edge leads to the module that is named, and not to the packages around it, whose `__init__` runs too: those would join
every package that exports something from below into one knot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "kraft_trio"
ROOT = Path(__file__).parent.parent


def module_files() -> dict[str, Path]:
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def imported(source: str, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules that a source names in its import statements."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules or node.module in modules:
                    yield name if name in modules else node.module


def circle_in(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """The modules of one import circle in order, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_import_circle() -> None:
    files = module_files()
    graph = {module: sorted(set(imported(path.read_text(), files))) for module, path in files.items()}
    assert len(graph) > 300, "the whole package is looked at"
    circle = circle_in(graph)
    assert not circle, f"an import circle: {' -> '.join(circle)}"


@pytest.mark.parametrize(
    "source",
    [
        "from kraft_trio.b import name",
        "import kraft_trio.b",
        "from kraft_trio import b",
        "def f():\n    from kraft_trio import b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kraft_trio.b import name",
    ],
)
def test_circle_is_found(source: str) -> None:
    sources = {"kraft_trio": "", "kraft_trio.a": source, "kraft_trio.b": "import kraft_trio.a"}
    graph = {module: list(imported(text, sources)) for module, text in sources.items()}
    assert set(circle_in(graph)) == {"kraft_trio.a", "kraft_trio.b"}
