"""The source files of the package: how many there are, how long they are, and how they are spread over folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Final

PACKAGE: Final = "kraft_trio"

LONG_LINES: Final = 450
"""A file with more lines is too long."""

Sources = Mapping[str, str]
"""The text of each Python file, by its path from the package."""


def sources_of(root: Path) -> dict[str, str]:
    """The files of the package in the checkout at `root`."""
    package = root / PACKAGE
    return {str(path.relative_to(package)): path.read_text() for path in sorted(package.rglob("*.py"))}


def lines_of(sources: Sources) -> dict[str, int]:
    return {path: text.count("\n") for path, text in sources.items()}


def median_lines(sources: Sources) -> int:
    return round(median(lines_of(sources).values()))


def long_files(sources: Sources) -> dict[str, int]:
    """The lines of each file that is too long."""
    return {path: lines for path, lines in lines_of(sources).items() if lines > LONG_LINES}


def folders(sources: Sources) -> Counter[str]:
    """The number of files directly in each folder; "." is the package."""
    return Counter(str(PurePosixPath(path).parent) for path in sources)
