"""What is said twice: runs of equal lines, and functions that differ in names, strings and numbers alone."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from typing import Final

from scripts.structure.package import Sources

LEAST_STATEMENTS: Final = 4
"""Shorter functions are often equal in shape by chance."""

LEAST_LINES: Final = 6
"""Shorter runs of lines are often equal by chance."""

_PUNCTUATION: Final = frozenset("()[]{},:\"' ")

_NAMES: Final = frozenset({"arg", "attr", "id", "name", "names", "rest", "kwd_attrs", "asname", "module"})
"""The fields of a syntax tree that hold names."""


def same_shapes(sources: Sources) -> list[list[tuple[str, str]]]:
    """Path and name of the functions of each shape that more than one has, the largest groups first."""
    shapes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and statements(node) >= LEAST_STATEMENTS:
                shapes[shape(node)].append((path, node.name))
    groups = [group for group in shapes.values() if len(group) > 1]
    return sorted(groups, key=lambda group: (-len(group), group))


def repeated_lines(sources: Sources) -> Counter[str]:
    """The lines of each file that are in a run of at least `LEAST_LINES` which an earlier place has as well.

    Blank lines, imports and lines of punctuation alone do not count, and neither does indentation.
    """
    first: dict[tuple[str, ...], tuple[str, int]] = {}
    repeated: Counter[str] = Counter()
    for path, text in sources.items():
        lines = [line for line in map(str.strip, text.splitlines()) if _counts(line)]
        again: set[int] = set()
        for start in range(len(lines) - LEAST_LINES + 1):
            run = range(start, start + LEAST_LINES)
            there, begun = first.setdefault(tuple(lines[number] for number in run), (path, start))
            if there != path or begun + LEAST_LINES <= start:
                again |= set(run)
        if again:
            repeated[path] = len(again)
    return repeated


def _counts(line: str) -> bool:
    return not line.startswith(("import ", "from ")) and not _PUNCTUATION.issuperset(line)


def pairs(groups: list[list[tuple[str, str]]]) -> int:
    return sum(len(group) * (len(group) - 1) // 2 for group in groups)


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The statements in its body at any depth, without its docstring."""
    nested = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return nested - (ast.get_docstring(function) is not None)


def shape(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Its syntax tree without names, the values of constants, annotations, decorators and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    arguments = function.args
    counts = [len(arguments.posonlyargs) + len(arguments.args), len(arguments.kwonlyargs)]
    return f"{type(function).__name__} {counts} {[_shape(statement) for statement in body]}"


def _shape(node: object) -> str:
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    if isinstance(node, ast.AST):
        parts = [
            _shape(value)
            for name, value in ast.iter_fields(node)
            if name not in _NAMES and name not in {"annotation", "returns", "ctx", "type_comment"}
        ]
        return f"{type(node).__name__}({', '.join(parts)})"
    if isinstance(node, list):
        return f"[{', '.join(map(_shape, node))}]"
    return repr(node)
