"""The decoders under atheris, where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.fuzzing.decoders import DECODERS
from tests.support.programs import REPOSITORY

pytest.importorskip("atheris", reason="atheris is not installed; `scripts/fuzz` goes without it")


def test_a_decoder_withstands_it_for_a_second(tmp_path: Path) -> None:
    """And the inputs that reached something new are kept."""
    corpus = tmp_path / "corpus"
    command = [sys.executable, "-m", "scripts.fuzzing.guided", "jaas", "--seconds", "1", "--corpus", str(corpus)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "stat::number_of_executed_units" in ended.stdout + ended.stderr
    assert len(list(corpus.iterdir())) > len(DECODERS["jaas"].seeds())
