"""What every measurement is given: where to work, how long, and whom to tell how it goes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.children import run_to_end
from benchmarks.measurement import LoadResult


@attrs.frozen
class Context:
    """The settings of one run; shared by its measurements."""

    quick: bool
    directory: Path
    """Parent of the data directories, on the file system to measure."""
    overrides: dict[str, str]
    """Configuration of our nodes that differs from the defaults, by key."""
    pythons: tuple[str, ...]
    """Interpreters of Python that `builds` compares."""
    say: Callable[[str], None]
    """Shows one line of progress."""

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def fresh_directory(self, name: str) -> Iterator[Path]:
        """A directory that did not exist before and is removed afterwards."""
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


async def run_load(program: str, *arguments: str, seconds: float) -> LoadResult:
    """Run `python -m benchmarks.loads.<program>`, loading for `seconds`.  Raises BenchmarkError when it fails."""
    command = [sys.executable, "-m", f"benchmarks.loads.{program}", *arguments, "--seconds", str(seconds)]
    return LoadResult.from_json(await run_to_end(command, seconds=seconds + 60))
