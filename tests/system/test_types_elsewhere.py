"""mypy accepts the package for other systems, whose modules of Python lack some calls."""

from __future__ import annotations

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
