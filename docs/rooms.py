"""The layers of the library and the rooms of a package, by their docstrings and the contracts of import-linter."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from docs.tables import first_sentence, table

REPOSITORY: Final = Path(__file__).parent.parent


def rooms(package: str) -> str:
    """What each room of a package is for, from above to below."""
    [layers] = [one["layers"] for one in _contracts() if one.get("containers") == [f"kraft_trio.{package}"]]
    names = [room.strip() for layer in layers for room in layer.split(":")]
    return table((f"room of `{package}`", "content"), ((f"`{name}`", _said_of(f"{package}/{name}")) for name in names))


def layers() -> str:
    """What each layer of the library is for, from above to below."""
    layers = enumerate(_contracts()[0]["layers"], 1)
    named = [
        (str(level), name.strip().removeprefix("kraft_trio.")) for level, layer in layers for name in layer.split(":")
    ]
    return table(("layer", "package", "content"), ((level, f"`{name}`", _said_of(name)) for level, name in named))


def _contracts() -> list[dict[str, Any]]:
    contracts: list[dict[str, Any]] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    return contracts


def _said_of(name: str) -> str:
    """The first sentence of the docstring of a module or package.  Raises ValueError if it has none."""
    path = REPOSITORY / "kraft_trio" / name
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(path.read_text()))
    if not said:
        raise ValueError(f"{path}: has no docstring")
    return re.sub(r" ?\((?:see )?docs/[^)]*\)|[;,:] see\s+docs/[\w/.-]+(?=\.)", "", first_sentence(said))
