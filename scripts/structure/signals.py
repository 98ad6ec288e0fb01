"""Where tasks signal each other: the classes and functions that make or await what wakes a task."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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

LEFT_OUT: Final = ("simulation/", "testing/")
"""They wait for nodes, and no node waits with them."""


def signals(sources: Sources) -> list[tuple[str, str, str]]:
    """Path, owner and kind of each signal, each once.  The owner is the outermost class or function."""
    found = set()
    for path, text in sources.items():
        if not path.startswith(LEFT_OUT):
            for statement in ast.parse(text).body:
                owner = getattr(statement, "name", "the module")
                found |= {(path, owner, kind) for kind in _kinds(statement)}
    return sorted(found)


def mechanisms(found: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """Path and owner of each hand-written wait: what Trio's own signals were not enough for."""
    return {(path, owner) for path, owner, kind in found if kind == "wait_task_rescheduled"}


def _kinds(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            if name in KINDS and (isinstance(called, ast.Name) or _is_trios(called)):
                yield str(name)


def _is_trios(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and ast.unparse(called.value) in {"trio", "trio.lowlevel"}
