"""Scripts whose parts are a module each, named on the command line with `-` for `_`."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import ModuleType

import attrs


@attrs.frozen
class Modules:
    """Those of a package.  The first line of a module's docstring says what it does."""

    package: str
    names: Collection[str]

    def __getitem__(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name.replace('-', '_')}")

    def first_line(self, name: str) -> str:
        return (self[name].__doc__ or "").splitlines()[0]

    def listing(self) -> str:
        """All with their first lines."""
        width = max(map(len, self.names)) + 3
        return "\n".join(f"{name:<{width}}{self.first_line(name)}" for name in self.names)
