"""The program in docs/API.md is run, typed and formatted, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
DOCUMENT = (REPOSITORY / "docs" / "API.md").read_text()
ALLOWED_SECONDS = 90


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [text] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("api") / "membership.py"
    path.write_text(text)
    return path


def run(*arguments: str) -> str:
    completed = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=ALLOWED_SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


@pytest.mark.acceptance
def test_the_program_changes_the_voters(program: Path) -> None:
    assert run(str(program)).splitlines() == [
        "voters: [1]",
        "voters: [(1, 0), (2, 0)]",
        "refused: duplicate_voter",
        "voters: [1]",
    ]


def test_the_program_is_typed_and_formatted(program: Path) -> None:
    settings = str(REPOSITORY / "pyproject.toml")
    run("-m", "mypy", "--strict", "--config-file", settings, str(program))
    run("-m", "ruff", "check", "--config", settings, str(program))
    run("-m", "ruff", "format", "--check", "--config", settings, str(program))
