"""How much a test run covers: part of it by default, everything with `scripts/test --all`."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

IS_ALL = os.environ.get("KRAFT_TEST_ALL") == "1"
"""Whether this is the nightly run; `scripts/test --all` sets the variable."""


IS_INTEROP = os.environ.get("KRAFT_TEST_INTEROP") == "1"
"""Whether all tests with Apache Kafka's programs are covered; `scripts/test --interop` sets the variable."""


IS_WHOLE = os.environ.get("KRAFT_TEST_WHOLE") == "1"
"""Whether the run is not limited to some files; `scripts/test` sets the variable then."""


@functools.cache
def base() -> int:
    """A number that changes with the commit, so that successive commits cover different parts.

    KRAFT_TEST_BASE repeats the parts of another commit.  Outside a git repository, the base is 0.
    """
    if chosen := os.environ.get("KRAFT_TEST_BASE"):
        return int(chosen)
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=6", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return int(found.stdout, 16) % 10_000 if found.returncode == 0 else 0


def part(cases: Sequence[T], parts: int) -> Sequence[T]:
    """Every `parts`-th case; the base decides where to begin.  All cases in the nightly run."""
    return cases if IS_ALL else cases[base() % parts :: parts]


def examples(count: int) -> int:
    """How many examples Hypothesis tries: a quarter of `count` by default."""
    return count if IS_ALL else max(count // 4, min(count, 20))
