"""What only some systems have is asked of `kraft_trio/system/`, so that it is thought of where it is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kraft_trio
from tests.system.typeshed import names_of

PACKAGE = Path(kraft_trio.__file__).parent
MODULES = ("os", "socket", "select", "signal", "mmap", "time")
WHOLE = {"fcntl", "resource", "ctypes", "termios", "pwd", "grp"}
"""Modules that Windows lacks, or that call what the system offers by number or name."""
PATHS = re.compile(r"/(proc|sys|dev/(?!null))\b")
PLATFORM = {"sys.platform", "os.name", "os.uname", "platform.system"}


def sources() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "system" not in path.parents]


def only_linux() -> set[str]:
    return {f"{module}.{name}" for module in MODULES for name in names_of(module, "linux") - names_of(module, "darwin")}


def uses(tree: ast.AST, forbidden: set[str]) -> Iterator[str]:
    """Names of the modules by themselves or in a string for getattr, modules, paths, and questions for the system."""
    names = {name.partition(".")[2] for name in forbidden}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported):
                yield from (one.name for one in imported if one.name in WHOLE)
            case ast.ImportFrom(module=module, names=imported):
                yield from (f"{module}.{one.name}" for one in imported if f"{module}.{one.name}" in forbidden)
                yield from [module] if module in WHOLE else []
            case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.{name}" in forbidden | PLATFORM:
                yield f"{module}.{name}"
            case ast.Constant(value=str(text)) if text in names or PATHS.match(text):
                yield text


def refusals(tree: ast.Module) -> int:
    """How often the module asks for Windows in order to refuse it, or to leave out what only POSIX systems have."""
    return sum(ast.unparse(node) in ("sys.platform == 'win32'", "sys.platform != 'win32'") for node in ast.walk(tree))


FORBIDDEN = only_linux()
WORDS = {name.partition(".")[2] for name in FORBIDDEN} | WHOLE
TEXTS = (*PLATFORM, "/proc", "/sys/", "/dev/")
WATCHED = {"simulation/commands/call_watch.py": ["getrandom"]}
"""Names that are no use, but calls which state machines should not make."""


def test_what_only_linux_has_is_used_in_one_place() -> None:
    for path in sources():
        text = path.read_text()
        if WORDS.isdisjoint(re.findall(r"\w+", text)) and not any(one in text for one in TEXTS):
            continue
        tree = ast.parse(text)
        found = list(uses(tree, FORBIDDEN))
        for _ in range(refusals(tree)):
            found.remove("sys.platform")
        assert found == WATCHED.get(str(path.relative_to(PACKAGE)), []), path


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.eventfd(0)",
        "import os\ngetattr(os, 'posix_fallocate')",
        "from os import fdatasync",
        "import socket\nsocket.TCP_USER_TIMEOUT",
        "import fcntl",
        "open('/proc/self/status')",
        "import sys\nsys.platform == 'linux'",
        "import select\nselect.epoll()",
        "import signal\nsignal.sigtimedwait",
    ],
)
def test_such_a_use_is_found(program: str) -> None:
    assert list(uses(ast.parse(program), FORBIDDEN)) != []
