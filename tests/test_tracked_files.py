"""What the repository tracks is source that a reader can open: no downloads, and nothing that .gitignore names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
MOST_BYTES = 200_000
"""Of one tracked binary file, inclusive."""


def tracked(*options: str) -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs a clone: this tree has no .git")
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", *options]
    listed = subprocess.run(command, capture_output=True, check=True).stdout
    return [REPOSITORY / name.decode() for name in listed.split(b"\0") if name]


def is_binary(path: Path) -> bool:
    """Git's own test: there is a zero byte among the first 8,000."""
    with path.open("rb") as file:
        return b"\0" in file.read(8_000)


def test_nothing_is_tracked_that_git_ignores() -> None:
    assert tracked("--ignored", "--exclude-per-directory=.gitignore") == []


def test_no_large_binary_is_tracked() -> None:
    files = [path for path in tracked() if path.is_file()]
    assert len(files) > 100
    assert [path for path in files if path.stat().st_size > MOST_BYTES and is_binary(path)] == []
