"""Functions whose source text is made at run time: a flat function for each message is much faster than closures.

`linecache` knows the text, so that tracebacks show its lines and `inspect.getsource(function)` returns it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

_numbers: Final = count(1)


class FunctionSource:
    """The source of one function while it is built: its lines, its variables and the values that it refers to."""

    def __init__(self, header: str, names: Mapping[str, Any]) -> None:
        self._lines = [header]
        self._depth = 1
        self._used = 0
        self._globals = dict(names)

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Open a block with the line `header`.  Lines that are added in the `with` statement belong to the block."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, stem: str) -> str:
        """A new variable name."""
        self._used += 1
        return f"{stem}_{self._used}"

    def constant(self, stem: str, value: Any) -> str:
        """An expression for the value: its literal, or a name that is bound to it if it has no literal."""
        if value is None or type(value) in {bool, int, str, bytes}:
            return repr(value)
        name = self.variable(stem)
        self._globals[name] = value
        return name

    def compiled(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the function `name`, which the header defines.  Tracebacks show `title` as its file."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<{title} {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._globals)
        function: Callable[..., Any] = self._globals[name]
        return function
