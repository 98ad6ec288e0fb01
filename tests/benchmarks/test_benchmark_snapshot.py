"""The arithmetic under what a snapshot's writing is held against, and the programs that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.snapshot_files import COMMANDS, Run, section_of


def runs(*seconds: float) -> list[Run]:
    return [Run(bytes=100_000_000, seconds=some, peak_mib=50.0, cpu_seconds=0.1, p99_wait_ms=some) for some in seconds]


@pytest.mark.parametrize(
    ("written", "copied", "share", "met"),
    [
        ((2.0, 2.0, 2.0), (1.0, 1.0, 1.0), "50 %", True),
        ((2.1, 2.1, 2.1), (1.0, 1.0, 1.0), "48 %", False),
        # A slow moment of the machine hits both; one odd round does not decide.
        ((2.0, 20.0, 2.0), (1.0, 10.0, 1.0), "50 %", True),
        ((1.0, 9.0, 1.0), (1.0, 1.0, 1.0), "100 %", True),
    ],
)
def test_each_round_is_held_against_its_own_copy(
    written: tuple[float, ...], copied: tuple[float, ...], share: str, met: bool
) -> None:
    measured = {"write": runs(*written), "copy": runs(*copied), "check": runs(0.1), "open": runs(0.2)}
    section = section_of({200: measured})
    (aim,) = section.aims
    assert (aim.measured, aim.met) == (share, met)
    assert [row[0] for row in section.rows] == [f"records of 200 bytes: {command}" for command in COMMANDS]
    assert section.rows[0][3:] == (share, f"{sorted(written)[1]:.2f}", "0.10", f"{max(written):.1f}", "50")


def test_the_programs_measure_one_snapshot(tmp_path: Path) -> None:
    sizes = set()
    for command in COMMANDS:
        flags = ["--record-bytes", "200", "--total-bytes", "1000000"] if command == "write" else []
        program = [sys.executable, "-m", "benchmarks.loads.snapshot_files", command, str(tmp_path), *flags]
        done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
        run = Run(**json.loads(done.stdout))
        sizes.add(run.bytes)
        assert run.seconds > 0
    (size,) = sizes
    assert size >= 1_000_000
