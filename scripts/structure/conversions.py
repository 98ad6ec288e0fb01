"""The functions of `wire/apis/` that convert between what is on the wire and what the class of a message has.

They are those that a `Via` names (`wire/fields.py`).  In older commits they convert whole messages from and to dicts: a
parameter or the result is made of `Fields`, and a lambda is recognized by the keyword that it is passed by.
"""

from __future__ import annotations

import ast
from typing import Final

from scripts.structure.package import Sources

FOLDER: Final = "wire/apis/"

FIELDS: Final = "Fields"
"""The name that annotations have for a dict of fields."""

KEYWORDS: Final = ("fields_of_", "_of_fields")
"""Parts of the keywords by which converting lambdas are passed."""

VIA: Final = "Via"
DIRECTIONS: Final = ("read", "write")
"""The keywords of its two functions."""


def conversions(sources: Sources) -> list[tuple[str, str]]:
    """Path and name of each; a lambda has the name of the keyword that it is passed by."""
    found: list[tuple[str, str]] = []
    for path, text in sources.items():
        if path.startswith(FOLDER):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and _is_conversion(node):
                    found.append((path, node.name))
                elif isinstance(node, ast.keyword) and _is_converting_lambda(node):
                    found.append((path, str(node.arg)))
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == VIA:
                    found += [(path, ast.unparse(each.value)) for each in node.keywords if _is_function(each)]
    return sorted(found)


def _is_function(keyword: ast.keyword) -> bool:
    """Whether it is a direction of a Via, and no expression in a text."""
    return keyword.arg in DIRECTIONS and not isinstance(keyword.value, ast.Constant)


def _is_conversion(function: ast.FunctionDef) -> bool:
    arguments = function.args
    annotations = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return any(_names_fields(annotation) for annotation in (*annotations, function.returns))


def _names_fields(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id == FIELDS for node in ast.walk(annotation)
    )


def _is_converting_lambda(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Lambda) and any(part in (keyword.arg or "") for part in KEYWORDS)
