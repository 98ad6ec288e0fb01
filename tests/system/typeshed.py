"""Which names a module of Python has on a system, as typeshed tells it to mypy."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
PYTHON = (3, 14)


@functools.cache
def names_of(module: str, platform: str) -> frozenset[str]:
    stub = STUBS / f"{module}.pyi"
    if not stub.exists():
        stub = STUBS / module / "__init__.pyi"
    return frozenset(_names(ast.parse(stub.read_text()).body, platform))


def _names(body: list[ast.stmt], platform: str) -> set[str]:
    found: set[str] = set()
    for node in body:
        match node:
            case ast.If(test=test, body=then, orelse=otherwise):
                found |= _names(then if _holds(test, platform) else otherwise, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.ImportFrom(names=names):
                found |= {one.asname or one.name for one in names}
    return found


def _holds(test: ast.expr, platform: str) -> bool:
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(value, platform) for value in values)
        case ast.BoolOp(values=values):
            return any(_holds(value, platform) for value in values)
        case ast.Compare(left=ast.Attribute(attr=what), ops=[operator], comparators=[right]):
            left: object = platform if what == "platform" else PYTHON
            value = ast.literal_eval(right)
            if isinstance(operator, ast.Eq):
                return bool(left == value)
            if isinstance(operator, ast.NotEq):
                return bool(left != value)
            return value <= PYTHON if isinstance(operator, ast.GtE) else value > PYTHON
    raise AssertionError(f"expected a question for the system or the version: {ast.unparse(test)}")
