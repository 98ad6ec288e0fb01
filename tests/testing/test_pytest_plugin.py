"""The fixture `kraft_cluster`, in runs of pytest as users make them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

BROKEN = """
import pytest
from examples.bank import SERDE, Deposit
from tests.simulation.broken_banks import RandomBank

@pytest.mark.kraft_cluster(RandomBank, serde=SERDE, seeds=2)
async def test_it(kraft_cluster, tmp_path):
    assert tmp_path.exists()
    await kraft_cluster.execute(Deposit("alice", 1))
"""


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    plugin = ["-p", "kraft_trio.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q"]
    command = [sys.executable, "-m", "pytest", *plugin, f"--rootdir={REPOSITORY}", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.rotating(2)
def test_the_example_passes_with_each_seed() -> None:
    ran = run_pytest("examples/test_bank.py", "-vv")
    assert ran.returncode == 0, ran.stdout
    assert "test_a_deposit_that_is_retried_is_made_once[seed 2] PASSED" in ran.stdout
    assert "6 passed" in ran.stdout


@pytest.mark.rotating(2)
def test_a_failure_tells_the_seed_and_the_call(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text(BROKEN)
    ran = run_pytest(str(file))
    assert ran.returncode == 1
    assert "FAILED" in ran.stdout
    assert "seed 1: simulation (a state machine reads no clock and draws no random number)" in ran.stdout
    assert "random.randrange at broken_banks.py" in ran.stdout


@pytest.mark.rotating(2)
def test_a_test_without_the_marker_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "test_unmarked.py"
    file.write_text("async def test_it(kraft_cluster): ...\n")
    ran = run_pytest(str(file))
    assert ran.returncode != 0
    assert "needs the marker pytest.mark.kraft_cluster(make, ...)" in ran.stdout + ran.stderr
