"""`scripts/setup` where it cannot succeed, and after it was interrupted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import REPOSITORY


def set_up(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code, and what is on stderr."""
    made = subprocess.run(
        ["scripts/setup", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return made.returncode, made.stderr


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python that makes no environment, and leaves a list of its arguments beside it."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\necho "$*" >> "{tmp_path}/calls"\n[ "$1" != -m ] && echo Python 3.10.1\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("argument", ["prod", "--help"])
def test_what_it_does_not_know_is_refused(argument: str) -> None:
    assert set_up(argument) == (1, f"scripts/setup: {argument}; expected run, dev, lowest or newest\n")


def test_a_python_that_is_missing_or_too_old_is_named(tmp_path: Path, python: Path) -> None:
    missing = f"scripts/setup: PYTHON is {tmp_path}/none, which cannot be run; expected Python 3.11 or newer\n"
    assert set_up(PYTHON=f"{tmp_path}/none") == (1, missing)
    python.write_text(python.read_text() + '[ "$1" != -c ]\n')
    old = "scripts/setup: Python 3.10.1 is too old: Python 3.11 or newer is needed (set PYTHON to choose one)\n"
    assert set_up(PYTHON=str(python)) == (1, old)


def test_an_environment_without_pip_is_made_again(tmp_path: Path, python: Path) -> None:
    """That of a set-up that was interrupted."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(python)
    assert set_up(PYTHON=str(python), KRAFT_VENV=str(venv))[0] == 1
    assert (tmp_path / "calls").read_text().splitlines()[-1] == f"-m venv {venv}"
