"""The program in docs/API.md is run, typed and formatted, as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.programs import REPOSITORY, run

DOCUMENT = (REPOSITORY / "docs" / "API.md").read_text()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [text] = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("api") / "membership.py"
    path.write_text(text)
    return path


@pytest.mark.acceptance
def test_the_program_changes_the_voters(program: Path) -> None:
    assert run([sys.executable, str(program)]).splitlines() == [
        "voters: [1]",
        "voters: [(1, 0), (2, 0)]",
        "refused: duplicate_voter",
        "voters: [1]",
    ]


def test_the_program_is_typed_and_formatted(program: Path) -> None:
    settings = str(REPOSITORY / "pyproject.toml")
    run([sys.executable, "-m", "mypy", "--strict", "--config-file", settings, str(program)])
    run([sys.executable, "-m", "ruff", "check", "--config", settings, str(program)])
    run([sys.executable, "-m", "ruff", "format", "--check", "--config", settings, str(program)])
