"""Where tasks signal each other: the classes and functions that make or await what wakes a task."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import Final

from scripts.structure.package import Sources

KINDS: Final = frozenset(
    {
        "CapacityLimiter",
        "Condition",
        "Event",
        "Lock",
        "ParkingLot",
        "Semaphore",
        "open_memory_channel",
        "wait_task_rescheduled",
    }
)
"""What Trio offers to wake a task.  With `wait_task_rescheduled`, the caller wakes it by hand."""

TRIO: Final = frozenset({"trio", "trio.lowlevel"})

LEFT_OUT: Final = ("simulation/", "testing/")
"""They wait for nodes, and no node waits with them."""


def signals(sources: Sources) -> list[tuple[str, str, str]]:
    """Path, owner and kind of each signal, each once.  The owner is the outermost class or function."""
    found = set()
    for path, text in sources.items():
        if not path.startswith(LEFT_OUT):
            module = ast.parse(text)
            imported = set(_imported(module))
            for statement in module.body:
                owner = getattr(statement, "name", "the module")
                found |= {(path, owner, kind) for kind in _kinds(statement, imported)}
    return sorted(found)


def mechanisms(found: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """Path and owner of each hand-written wait: what Trio's own signals were not enough for."""
    return {(path, owner) for path, owner, kind in found if kind == "wait_task_rescheduled"}


def _imported(module: ast.Module) -> Iterator[str]:
    """The names that a module imports from Trio."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module in TRIO:
            yield from (alias.name for alias in node.names)


def _kinds(statement: ast.stmt, imported: Set[str]) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            match node.func.value if isinstance(node.func, ast.Subscript) else node.func:
                case ast.Name(id=name) if name in KINDS & imported:
                    yield name
                case ast.Attribute(value=value, attr=name) if name in KINDS and ast.unparse(value) in TRIO:
                    yield name
