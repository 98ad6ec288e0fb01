"""`kraft simulate --state`: a search that goes on where it was interrupted, over all mixes of faults."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.cli.simulate_state import PAGE
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.chunks import Chunk
from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from kraft_trio.simulation.campaign.state_file import FILE, StateFile
from kraft_trio.simulation.faults.nemesis import PlanOptions

QUICK = ["--time", "1s", "--faults", "process"]


def seeds_in(state: Path) -> list[int]:
    return [int(seed) for seed in re.findall(r'^{"seed":(\d+)', (state / FILE).read_text(), re.MULTILINE)]


@pytest.mark.rotating(5)
def test_a_search_continues_and_can_be_extended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    assert run(["simulate", "--state", str(state), "--seeds", "0:2", "--jobs", "1", *QUICK]) == 0
    assert capsys.readouterr().out.startswith("2 of 2 seeds, ")
    assert run(["simulate", "--state", str(state), "--seeds", "0:3", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("3 of 3 seeds, ")
    assert run(["simulate", "--state", str(state), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["seeds"], found["ended"], found["violations"]) == (3, 3, [])
    assert sorted(seeds_in(state)) == [0, 1, 2]
    assert "Fetch request" in (state / PAGE).read_text()


def test_what_has_ended_before_an_interrupt_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Chunk] = []

    def run_chunks(chunks: Iterator[Chunk], task: object, jobs: int) -> Iterator[Outcome]:
        asked.extend(chunks)
        yield Outcome(asked[0][0], None, 3600.0, 1.0, "")
        if len(asked) > 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("kraft_trio.cli.simulate_state.run_chunks", run_chunks)
    state = tmp_path / "state"
    assert run(["simulate", "--state", str(state), "--seeds", "4:6", "--jobs", "2", *QUICK]) == 130
    assert capsys.readouterr().out.startswith("1 of 2 seeds, 1.00 virtual hours")
    first = asked[0][0]
    assert seeds_in(state) == [first]
    asked.clear()
    assert run(["simulate", "--state", str(state)]) == 0
    assert asked == [(9 - first,)]
    assert capsys.readouterr().out.startswith("2 of 2 seeds, 2.00 virtual hours")


def test_a_sitting_that_was_killed_after_its_first_line_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--state", str(tmp_path), "--jobs", "1"]
    assert run([*command, "--seeds", "0:1", *QUICK]) == 0
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    capsys.readouterr()
    assert run(command) == 0
    assert capsys.readouterr().out.startswith("1 of 1 seeds, ")
    assert seeds_in(tmp_path) == [0]


def test_a_violation_is_told_in_every_sitting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_chunks(chunks: Iterator[Chunk], task: object, jobs: int) -> Iterator[Outcome]:
        failure = Failure("invariant 5", "logs match", 1.5, ("a", "b"))
        yield from (Outcome(seed, failure, 1.0, 1.0, "digest") for chunk in chunks for seed in chunk)

    monkeypatch.setattr("kraft_trio.cli.simulate_state.run_chunks", run_chunks)
    command = ["simulate", "--state", str(tmp_path)]
    assert run([*command, "--seeds", "4:5", *QUICK]) == 1
    assert "seed 4: invariant 5 (logs match) is violated at 1.500000 s" in capsys.readouterr().out
    for sitting in ([], ["--report"]):
        assert run([*command, *sitting]) == 1
        told = capsys.readouterr().out
        assert told.count("kraft simulate --seed 4") == 1
        assert "invariant 5 (logs match): 1 seed\n  kraft simulate --seed 4 --time 1s --faults none\n" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--report"], "--report needs --state DIR"),
        (["--state", "{}", "--seeds", "0:9", "--clique"], "--clique and --state exclude each other"),
        (["--state", "{}", "--seeds", "0:9", "--trace", "x"], "--trace and --state exclude each other"),
        (["--state", "{}", "--seed", "3"], "--seed and --state exclude each other"),
        (["--state", "{}", "--seeds", "0:9", "--shrink"], "--shrink and --state exclude each other"),
        (["--state", "{}"], "no campaign yet; expected --seeds A:B"),
        (["--state", "{}", "--report", "--seeds", "0:9"], "no campaign yet; expected --seeds A:B, without --report"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(["simulate", *(argument.format(tmp_path) for argument in arguments)]) != 0
    assert told in capsys.readouterr().err


def test_other_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_chunks(chunks: Iterator[Chunk], task: object, jobs: int) -> Iterator[Outcome]:
        yield from (Outcome(seed, None, 1.0, 1.0, "digest") for chunk in chunks for seed in chunk)

    monkeypatch.setattr("kraft_trio.cli.simulate_state.run_chunks", run_chunks)
    state = ["simulate", "--state", str(tmp_path)]
    assert run([*state, "--seeds", "0:1", *QUICK]) == 0
    for option, ours, theirs in (
        ("--nodes", "5", "that each seed chooses"),
        ("--time", "2s", "1s"),
        ("--faults", "none", "process"),
    ):
        assert run([*state, option, ours]) == 1
        assert f"{option} {ours}; expected {theirs}, as the campaign has it" in capsys.readouterr().err


ENDED = '{"seed":9,"virtual_s":1,"real_s":1,"digest":"d","reached":"00"'


@pytest.mark.parametrize(
    "line",
    [
        *("x", "[]", "3", "null", '"seeds"', "{}", "\xff"),
        *('{"seeds":[1]}', '{"seeds":[1,2,0]}', '{"seeds":["a","b"]}'),
        *('{"seed":1}', ENDED + ',"seed":"x"}', ENDED + ',"virtual_s":"y"}', ENDED + ',"real_s":null}'),
        *(ENDED + f',"reached":"{"f" * 2000}"}}', ENDED + ',"reached":"-1"}', ENDED + ',"failure":[1,2]}'),
    ],
    ids=lambda line: line[-30:],
)
def test_a_line_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    damaged = b'{"seeds":[0,1]}\n' + line.encode("latin-1") + b"\n"
    (tmp_path / FILE).write_bytes(damaged)
    with StateFile.opened(tmp_path) as file:
        file.options = PlanOptions()
        with pytest.raises(ConfigError) as refused:
            file.read()
    shown = repr(line[:20].encode("latin-1"))[1:-1]
    assert f"{FILE}: line 2: {shown}" in str(refused.value)
    assert (tmp_path / FILE).read_bytes() == damaged


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:  # type: ignore[arg-type]
        file = StateFile(tmp_path / FILE, full)  # type: ignore[arg-type]
        with pytest.raises(OSError, match=re.escape(str(tmp_path / FILE))):
            file.choose(range(2))
