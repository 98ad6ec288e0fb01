"""Type checkers accept the package for other systems, whose modules of Python lack some calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import REPOSITORY


@pytest.mark.nightly
@pytest.mark.xdist_group("mypy")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_mypy_accepts_the_package_for(platform: str, tmp_path: Path) -> None:
    # What refuses Windows in its first lines is not reached there.
    options = ["--platform", platform, "--cache-dir", str(tmp_path), "--no-warn-unreachable"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stdout


def said_by_pyright(platform: str, settings: Path) -> set[tuple[str, int, str]]:
    """File, line and message of each complaint."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(settings), "--pythonplatform", platform], capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] > 100
    found = said["generalDiagnostics"]
    return {(one["file"], one["range"]["start"]["line"], one["message"]) for one in found}


@pytest.mark.nightly
@pytest.mark.xdist_group("pyright")
def test_pyright_finds_no_more_for_macos_than_for_linux(tmp_path: Path) -> None:
    """Of some styles of the package it thinks otherwise than mypy, wherever the package runs."""
    pytest.importorskip("basedpyright", reason="pyright is not installed (scripts/setup dev)")
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps({"include": [str(REPOSITORY / "kraft_trio")], "typeCheckingMode": "basic"}))
    linux = said_by_pyright("Linux", settings)
    assert {one for one in said_by_pyright("Darwin", settings) if one not in linux} == set()
