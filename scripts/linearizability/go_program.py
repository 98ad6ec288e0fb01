"""Builds the Go program that checks histories with porcupine, and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent / "porcupine"
PROGRAM: Final = SOURCE.parents[2] / "build" / "check-histories"


class NotBuilt(Exception):
    """There is no Go, or a module that is not in its cache cannot be fetched."""


def build(*, offline: bool = False) -> Path:
    """Build the program, which takes seconds the first time.  Go fetches porcupine then, unless `offline`.

    Raises NotBuilt.
    """
    go = shutil.which("go")
    if go is None:
        raise NotBuilt("there is no go on the PATH")
    # A newer toolchain than the installed one is not needed, and must not be fetched.
    environment = {**os.environ, "GOTOOLCHAIN": "local", **({"GOPROXY": "off"} if offline else {})}
    built = subprocess.run(
        [go, "build", "-o", str(PROGRAM), "."],
        cwd=SOURCE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise NotBuilt(f"go build: {built.stderr.strip()}")
    return PROGRAM


def problems_of(program: Path, histories: Sequence[Path]) -> dict[Path, str]:
    """What porcupine finds in each file that is not linearizable.  Raises RuntimeError if a file cannot be read."""
    checked = subprocess.run([program, *histories], capture_output=True, text=True, check=False)
    if checked.returncode not in (0, 1):
        raise RuntimeError(checked.stderr)
    verdicts = [line.split("\t", 1) for line in checked.stdout.splitlines()]
    return {Path(path): verdict for path, verdict in verdicts if verdict != "linearizable"}
