"""Takes away what only Linux has, as if Python had been built for another system: for tests of the package on Linux.

With KRAFT_TEST_PORTABLE=1, tests do so before they import the package, and so do the processes that they start
(tests/support/lean/sitecustomize.py).  Trio, which on Linux is built on epoll, and asyncio keep what they use.
"""

from __future__ import annotations

import importlib
import os
import select
import selectors  # noqa: F401  keeps its epoll, which asyncio uses
import shutil
import subprocess  # noqa: F401  looks for its calls when it is imported
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Final, NoReturn

IS_PORTABLE: Final = os.environ.get("KRAFT_TEST_PORTABLE") == "1"

_HIDDEN: Final = ("/proc/", "/sys/")


def only_linux() -> dict[str, list[str]]:
    """The names that are taken away, by module."""
    text = Path(__file__).with_name("only-linux.txt").read_text()
    paragraphs = [paragraph.split() for paragraph in text.split("\n\n")[1:]]
    return {module.removesuffix(":"): names for module, *names in paragraphs}


def take_away() -> None:
    """Remove the names, and let the package find no /proc and no /sys, unless it is done already."""
    if not hasattr(select, "epoll"):
        return
    _let_trio_keep(select)
    vars(tempfile)["_O_TMPFILE_WORKS"] = False
    vars(shutil)["_copyxattr"] = lambda *_, **__: None
    for module, names in only_linux().items():
        for name in names:
            vars(importlib.import_module(module)).pop(name, None)
    sys.addaudithook(_hide)


def _let_trio_keep(module: ModuleType) -> None:
    importlib.import_module("trio")
    vars(sys.modules["trio._core._io_epoll"])["select"] = SimpleNamespace(**vars(module))


def _hide(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse the package what is in the folders of Linux.  Others, such as tests, may look there."""
    if event not in ("open", "os.listdir", "os.scandir"):
        return
    path = arguments[0]
    if isinstance(path, str) and path.startswith(_HIDDEN) and _is_by_package():
        _refuse(path)


def _is_by_package() -> bool:
    caller = sys._getframe(2)
    while caller.f_code.co_filename.startswith("<frozen") or caller.f_code.co_filename.endswith("pathlib.py"):
        assert caller.f_back is not None
        caller = caller.f_back
    return str(caller.f_globals.get("__name__", "")).startswith("kraft_trio.")


def _refuse(path: str) -> NoReturn:
    raise FileNotFoundError(2, "taken away by the tests", path)
