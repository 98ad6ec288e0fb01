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


def run(command: list[str], *, seconds: float = ALLOWED_SECONDS, **environment: str) -> str:
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


def run_mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `mypy --strict` with the settings of the package; any exit code is returned.

    Without its cache, mypy takes a minute or more.  The first call fills the cache for the others, and for the gate.
    The cache is a database that one process at a time may write.
    """
    settings = str(REPOSITORY / "pyproject.toml")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", settings, *arguments]
    with open(settings) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def check_program(*programs: Path) -> None:
    """Programs of the documents keep the rules of the package: types, lint and format."""
    settings = str(REPOSITORY / "pyproject.toml")
    files = [str(program) for program in programs]
    checked = run_mypy(*files)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    run([sys.executable, "-m", "ruff", "check", "--config", settings, *files])
    run([sys.executable, "-m", "ruff", "format", "--check", "--config", settings, *files])
