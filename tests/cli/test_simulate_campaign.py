"""`kraft simulate --out`: results are kept, a second run continues, and what makes no sense is refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra `spark`")

from harness.waiting import wait_until  # noqa: E402
from kraft_trio.cli import run  # noqa: E402
from kraft_trio.simulation.campaign.outcome import Outcome  # noqa: E402

QUICK = ["--time", "1s", "--nodes", "3", "--observers", "0", "--faults", "network"]


def digests(out: Path) -> dict[int, str]:
    """Of every seed that has a result; asserts that none has two."""
    rows = pq.read_table(out / "results").to_pylist()
    assert len({row["seed"] for row in rows}) == len(rows)
    return {row["seed"]: row["digest"] for row in rows}


@pytest.mark.rotating(5)
def test_results_and_a_summary_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["simulate", "--seeds", "3:5", "--jobs", "2", "--out", str(out), *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (out / "summary.txt").read_text().splitlines() == lines
    assert lines[0].startswith("2 seeds, ")
    assert lines[0].endswith(", 0 violations")
    assert re.match(r"acknowledged appends \d+, .*\belections \d+, ", lines[1])
    assert re.match(r"faults injected: \d+ \(\S+ \d+", lines[2])
    assert any(re.match(r"role transitions: \d+ of 23 kinds taken; never: \w+ \w+", line) for line in lines)
    replay = "kraft simulate --seed [34] --nodes 3 --observers 0 --time 1s --faults network"
    assert any(re.fullmatch(rf"slow election: \d\.\d{{3}} s, at \d\.\d{{3}} s: {replay}", line) for line in lines)
    assert digests(out).keys() == {3, 4}


def test_what_ran_before_a_termination_is_told_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_chunks(chunks: object, task: object, jobs: int) -> Iterator[Outcome]:
        yield Outcome(3, None, 3600.0, 1.0, "")
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("kraft_trio.simulation.campaign.chunks.run_chunks", run_chunks)
    assert run(["simulate", "--seeds", "3:6", "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().out.startswith("1 seeds, 1.00 virtual hours in ")
    assert (tmp_path / "out" / "summary.txt").read_text().startswith("1 seeds, ")


@pytest.mark.rotating(5)
def test_a_second_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["simulate", "--seeds", "3:5", "--jobs", "1", "--out", str(out), *QUICK]) == 0
    kept = {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    capsys.readouterr()
    assert run(["simulate", "--seeds", "3:6", "--jobs", "1", "--chunk", "2", "--out", str(out), *QUICK]) == 0
    assert capsys.readouterr().out.startswith("3 seeds, ")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert digests(out).keys() == {3, 4, 5}
    assert run(["simulate", "--seeds", "3:6", "--time", "2s", "--out", str(out)]) == 1
    assert re.search(r"--out .*: nodes: None; expected 3, as the campaign there has it", capsys.readouterr().err)


@pytest.mark.usefixtures("acknowledges_at_once")
def test_violations_of_the_run_before_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "simulate",
        "--seed",
        "3",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "out"),
        *QUICK[:-2],
        "--faults",
        "none",
    ]
    # In this process: a rule that is broken here only would hold in another one.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kraft_trio.simulation.campaign.chunks.run_chunks", in_this_process)
        assert run(command) == 1
    first = capsys.readouterr().out
    found = re.search(r"seed 3: (invariant \d+)", first)
    assert found is not None
    assert run(command) == 1
    again = capsys.readouterr().out.splitlines()
    assert again[-2].startswith(f"{found[1]} (")
    assert again[-2].endswith("): 1 seed")
    assert again[-1] == "  kraft simulate --seed 3 --nodes 3 --observers 0 --time 1s --faults none"
    assert [path.name for path in (tmp_path / "out" / "traces").iterdir()] == ["seed-00000003.parquet"]


def in_this_process(chunks, task, _jobs):  # type: ignore[no-untyped-def]
    for chunk in chunks:
        yield from task(chunk, 0)


@pytest.mark.acceptance
@pytest.mark.rotating(5)
def test_a_campaign_that_was_killed_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def command(seeds: str) -> list[str]:
        return ["simulate", "--seeds", seeds, "--jobs", "2", "--chunk", "1", "--out", str(out), *QUICK]

    process = subprocess.Popen([sys.executable, "-m", "kraft_trio", *command("0:1000")], start_new_session=True)
    try:
        wait_until("there are results", lambda: len(list(out.glob("results/seeds-*"))) >= 3, seconds=120)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    before = digests(out)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("results/seeds-*")}
    last = max(before) + 4
    assert run(command(f"0:{last}")) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was there is not run again"
    after = digests(out)
    assert after.keys() == set(range(last))
    assert {seed: after[seed] for seed in before} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--master", "local[2]"], "--master local[2]: needs --spark"),
        (["--chunk", "3"], "--chunk needs --spark or --out DIR"),
        (["--spark", "--trace", "x"], "--trace and --spark exclude each other: --out keeps the traces of failures"),
        (["--out", "x", "--trace", "y"], "--trace and --out exclude each other: --out keeps the traces of failures"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seeds", "1:3", *arguments]) == 2
    assert capsys.readouterr().err == f"kraft: error: {message} (see kraft simulate --help)\n"


def test_without_the_extra_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("kraft_trio.spark.")]:
        monkeypatch.delitem(sys.modules, name)
    assert run(["simulate", "--seed", "1", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        "kraft: error: kraft simulate with --out or --spark: pyarrow is not installed; "
        "expected pip install 'kraft-trio[spark]'\n"
    )
