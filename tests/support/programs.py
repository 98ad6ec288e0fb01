"""Programs that the documents show, run as they stand there."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parent.parent.parent
ALLOWED_SECONDS: Final = 600


def run(command: list[str], *, seconds: float | None = ALLOWED_SECONDS, **environment: str) -> str:
    """What the command prints; it must end well and in time."""
    completed = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def check_program(*programs: Path) -> None:
    """Programs of the documents keep the rules of the package: types, lint and format.

    Without its cache, mypy takes a minute or more.  The first call fills the cache for the others, and for the gate.
    """
    settings = str(REPOSITORY / "pyproject.toml")
    files = [str(program) for program in programs]
    with open(settings) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        run([sys.executable, "-m", "mypy", "--strict", "--config-file", settings, *files], seconds=None)
    run([sys.executable, "-m", "ruff", "check", "--config", settings, *files])
    run([sys.executable, "-m", "ruff", "format", "--check", "--config", settings, *files])
