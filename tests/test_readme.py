"""What README.md shows is run: its embedding example, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text()
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALLOWED_SECONDS = 90


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one Python program of README.md, in a file of its own; it finds its ports and directories by itself."""
    [program] = PYTHON_BLOCK.findall(README)
    path = tmp_path_factory.mktemp("readme") / "bank.py"
    path.write_text(program)
    return path


@pytest.mark.acceptance
def test_the_embedding_example_runs_and_its_replicas_agree(example: Path) -> None:
    completed = subprocess.run(
        [sys.executable, str(example)],
        cwd=example.parent,
        capture_output=True,
        text=True,
        timeout=ALLOWED_SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    leader, *replicas = completed.stdout.splitlines()
    assert re.fullmatch(r"leader: node [123], last offset: \d+", leader)
    assert replicas == [f"node {id}: {{'alice': 70, 'bob': 20, 'carol': 60}}" for id in (1, 2, 3)]


def test_the_embedding_example_is_typed_and_formatted(example: Path) -> None:
    for command in (
        ["mypy", "--strict", "--config-file", str(REPOSITORY / "pyproject.toml"), str(example)],
        ["ruff", "format", "--check", "--config", str(REPOSITORY / "pyproject.toml"), str(example)],
    ):
        completed = subprocess.run(
            [sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr


def test_the_two_commands_come_first() -> None:
    first_block = README.split("```")[1].split()
    assert "scripts/quickstart" in first_block
    assert "scripts/test" in first_block
    assert README.index("```") < 20
