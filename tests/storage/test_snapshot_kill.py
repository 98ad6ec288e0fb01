"""kill -9 of a real process that takes snapshots, trims and installs them: what it had promised is there afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.disk.real_disk import RealDisk
from tests.storage.snapshot_worker import VALUES_A_ROUND, opened, state_of, value
from tests.support import sizes

FEWEST = 20 if sizes.IS_ALL else 4
"""It ends after so many kills, once there was one that left something behind; about half of them do."""
MOST = 100


def run_until_killed(directory: Path, mode: str, promises: int, delay_s: float) -> int:
    """Kill it so long after it has made so many promises; the last one."""
    command = [sys.executable, "-m", "tests.storage.snapshot_worker", str(directory), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        for _ in range(promises):
            assert process.stdout.readline(), "it ended by itself"
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
        assert process.wait() == -signal.SIGKILL
    # The promises that were read one by one count too, and there was one at least.
    return int(lines[-1]) if lines else -1


@pytest.mark.acceptance
@pytest.mark.rotating(5)
@pytest.mark.parametrize("mode", ["snapshot", "trim", "install"])
def test_what_was_promised_survives_every_kill(mode: str, tmp_path: Path) -> None:
    directory = tmp_path / "partition"
    source = random.Random(mode)
    disk = RealDisk()
    had = 0
    leftovers = 0
    for kill in range(MOST):
        if leftovers and kill >= FEWEST:
            break
        promised = run_until_killed(directory, mode, promises=2, delay_s=source.uniform(0, 0.05))
        leftovers += any(".part" in name or name.endswith(".deleted") for name in os.listdir(directory))
        report = check_partition(disk, str(directory))
        problems = [problem for problem in report.problems if "quorum-state: missing" not in problem]
        assert problems == [], f"kill {kill}"
        log = opened(disk, str(directory))
        values = state_of(disk, log)
        assert values == [value(number) for number in range(len(values))], f"kill {kill}"
        assert len(values) >= max(promised, had + VALUES_A_ROUND), f"kill {kill}"
        had = len(values)
        assert not [name for name in os.listdir(directory) if ".part" in name]
        # As a process leaves it that ends without closing it.
        log._segments.close()
    disk.close()
    assert leftovers, "some kill came while there was something to leave"
