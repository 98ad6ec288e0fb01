"""The arithmetic under what a snapshot's writing is held against, and the programs that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import snapshot_commits, snapshot_fetch
from benchmarks.loads import large_state, loopback
from benchmarks.loads.snapshot_files import KINDS
from benchmarks.snapshot_files import CASES, COMMANDS, Run, section_of


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
    section = section_of({"small values": measured})
    (aim,) = section.aims
    assert (aim.measured, aim.met) == (share, met)
    assert [row[0] for row in section.rows] == [f"small values: {command}" for command in COMMANDS]
    assert section.rows[0][3:] == (share, f"{sorted(written)[1]:.2f}", "0.10", f"{max(written):.1f}", "50")


@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_measure_one_snapshot(kind: str, tmp_path: Path) -> None:
    sizes = set()
    for command in COMMANDS:
        flags = ["--record-bytes", "200", "--total-bytes", "1000000", "--kind", kind] if command == "write" else []
        program = [sys.executable, "-m", "benchmarks.loads.snapshot_files", command, str(tmp_path), *flags]
        done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
        run = Run(**json.loads(done.stdout))
        sizes.add(run.bytes)
        assert run.seconds > 0
    (size,) = sizes
    assert size >= 1_000_000


def test_every_kind_of_record_is_measured() -> None:
    assert {kind for _, kind in CASES.values()} == set(KINDS)


def fetched(seconds: float, tcp: float, to_file: float) -> snapshot_fetch.Round:
    return snapshot_fetch.Round(100_000_000, seconds, tcp, to_file, 60.0, 70.0)


def test_each_download_is_compared_with_plain_sockets() -> None:
    section = snapshot_fetch.section_of([fetched(1.0, 0.4, 0.6), fetched(9.0, 3.0, 5.0), fetched(2.0, 0.8, 1.0)])
    assert [(aim.measured, aim.met) for aim in section.aims] == [("56 %", True), ("40 %", False)]
    assert [row[2:] for row in section.rows] == [("50", "2.00"), ("125", "0.80"), ("100", "1.00")]
    assert section.notes == ("Peak memory: leader 60 MiB, receiver 70 MiB.",)


def phase(p99_ms: float) -> snapshot_commits.Phase:
    return snapshot_commits.Phase(1.0, 100, p99_ms / 2, p99_ms, p99_ms * 3)


def test_each_rounds_phases_are_held_against_its_own_quiet_one() -> None:
    rounds = [
        snapshot_commits.Round(phase(quiet), phase(one), phase(all_), 50.0)
        for quiet, one, all_ in ((1.0, 1.5, 3.0), (10.0, 22.0, 90.0), (1.0, 2.5, 4.0))
    ]
    section = snapshot_commits.section_of(rounds, 2**30)
    assert [row[-1] for row in section.rows] == ["1.00 ×", "2.20 ×", "4.00 ×"]
    (aim,) = section.aims
    assert (aim.measured, aim.met) == ("2.20 ×", False)
    assert section.title == "Commits while a snapshot of 1024 MiB is written"


def test_a_phase_is_its_commits_in_order() -> None:
    latencies = [float(number) for number in range(100, 0, -1)]
    assert snapshot_commits.Phase.of(latencies, 5.0) == snapshot_commits.Phase(5.0, 100, 50.0, 99.0, 100.0)


@pytest.mark.parametrize("to_file", [False, True])
def test_the_loopback_program_moves_that_many_bytes(to_file: bool, tmp_path: Path) -> None:
    size = 3 * loopback.PIECE_BYTES + 5
    flags = ["--file", str(tmp_path / "copy")] if to_file else []
    program = [sys.executable, "-m", "benchmarks.loads.loopback", str(size), *flags]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    answer = json.loads(done.stdout)
    assert answer["bytes"] == size
    assert answer["seconds"] > 0
    assert not to_file or (tmp_path / "copy").stat().st_size == size


async def test_a_large_state_is_reproducible_and_of_the_requested_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(large_state.STATE_BYTES, "1000000")
    monkeypatch.setenv(large_state.RECORD_BYTES, "100")
    values = [value for value in large_state.LargeState().save() if isinstance(value, bytes)]
    assert values == list(large_state.LargeState().save())
    assert 1_000_000 <= sum(map(len, values)) < 1_200_000
    assert {len(value) for value in values} <= set(range(50, 151))
