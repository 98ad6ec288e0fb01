"""`kraft simulate`: seeds over processes, what a violation prints, traces, shrinking, scripts, bad command lines."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.cli.simulation_display import SeedsDisplay
from kraft_trio.cli.terminal.termination import terminations_as_interrupts
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.steps import runs
from kraft_trio.system.signals import HANGUP
from kraft_trio.tracing.files import open_trace

pytestmark = pytest.mark.rotating(2)

QUICK = ("--time", "4s", "--nodes", "3", "--observers", "0")

SCRIPT = """\
# One node leads, and what it is given is committed.
seed 4
voters 1 2 3

elect 2
append "a"
expect leader 2
"""


class TestSeeds:
    def test_one_seed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["simulate", "--seed", "3", *QUICK]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(
            r"1 seeds, 0\.\d\d virtual hours in \d+\.\d s \(\d+ virtual seconds a second and process\), 0 violations",
            lines[0],
        )
        assert re.search(r"\backnowledged appends \d+, .*\belections \d+", lines[1])

    @pytest.mark.parametrize("number", [signal.SIGTERM, HANGUP])
    def test_what_ran_before_a_termination_is_told(
        self, number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run_campaign(
            seeds: Sequence[int], run_seed: object, *, jobs: int, on_outcome: Callable[[Outcome], object]
        ) -> None:
            on_outcome(Outcome(seeds[0], None, 3600.0, 1.0, ""))
            signal.raise_signal(number)

        # Below nohup, SIGHUP is ignored.
        before = signal.signal(number, signal.SIG_DFL)
        monkeypatch.setattr("kraft_trio.cli.simulate.run_campaign", run_campaign)
        try:
            assert run(["simulate", "--seeds", "3:6", "--jobs", "2"]) == 130
            assert signal.getsignal(number) == signal.SIG_DFL
        finally:
            signal.signal(number, before)
        told = capsys.readouterr()
        assert told.out.startswith("1 seeds, 1.00 virtual hours in ")
        assert told.err.endswith("interrupted\n")

    def test_the_end_of_the_terminal_does_not_end_a_campaign_under_nohup(self) -> None:
        before = signal.signal(HANGUP, signal.SIG_IGN)
        try:
            with terminations_as_interrupts():
                signal.raise_signal(HANGUP)
        finally:
            signal.signal(HANGUP, before)

    def test_progress_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        now_s = 0.0
        with SeedsDisplay(5, clock=lambda: now_s) as display:
            for seed in range(5):
                now_s += 40.0
                display.ended(Outcome(seed, None, 3600.0, 40.0, ""), str)
        assert capsys.readouterr().err.splitlines() == [
            "simulating: 2 of 5 seeds, 2.00 virtual hours, 0 violations",
            "simulating: 4 of 5 seeds, 4.00 virtual hours, 0 violations",
        ]

    @pytest.mark.rotating(2)
    def test_several_in_several_processes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["simulate", "--seeds", "3:6", "--jobs", "2", "--faults", "network", *QUICK, "--time", "1s"]) == 0
        assert capsys.readouterr().out.startswith("3 seeds, ")

    def test_a_state_machine_in_several_processes(self, capsys: pytest.CaptureFixture[str]) -> None:
        machine = ("--state-machine", "examples.bank:Bank", "--serde", "examples.bank:SERDE")
        assert run(["simulate", "--seeds", "3:5", "--jobs", "2", *machine, *QUICK]) == 0
        assert re.search(r"\backnowledged commands [1-9]", capsys.readouterr().out)

    def test_a_broken_state_machine(self, capsys: pytest.CaptureFixture[str]) -> None:
        machine = ("--state-machine", "tests.simulation.broken_banks:RandomBank", "--serde", "examples.bank:SERDE")
        assert run(["simulate", "--seed", "3", *machine, *QUICK]) == 1
        output = capsys.readouterr().out
        assert "calls random.randrange at broken_banks.py:" in output
        assert f"kraft simulate --seed 3 --nodes 3 --observers 0 --time 4s {' '.join(machine)}" in output

    def test_a_state_machine_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["simulate", "--state-machine", "examples.no_bank:Bank", *QUICK]) != 0
        assert "--state-machine=examples.no_bank:Bank: there is no module examples.no_bank" in capsys.readouterr().err

    def test_a_seed_of_its_own_where_none_is_given(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kraft_trio.cli.simulate.SystemRandom.randrange", lambda _self, limit: limit - 7)
        assert run(["simulate", "--trace", "/dev/null", *QUICK]) == 0
        assert capsys.readouterr().out.startswith("1 seeds, ")

    def test_the_trace_of_one(self, tmp_path: Path) -> None:
        path = tmp_path / "trace"
        assert run(["simulate", "--seed", "3", *QUICK, "--trace", str(path), "--ndjson", "--messages"]) == 0
        assert path.read_bytes().startswith(b"{")
        with open_trace(path) as (header, events):
            assert header.command == "kraft simulate --seed 3 --nodes 3 --observers 0 --time 4s"
            kinds = [event.kind for event in events]
            assert {"start", "role", "message", "operation"} <= set(kinds)

    def test_the_traces_of_several(self, tmp_path: Path) -> None:
        path = str(tmp_path / "trace-{seed}.msgpack")
        assert run(["simulate", "--seeds", "3:5", "--jobs", "1", *QUICK, "--time", "1s", "--trace", path]) == 0
        for seed in (3, 4):
            with open_trace(path.format(seed=seed)) as (header, events):
                assert header.seed == seed
                assert any(event.kind == "role" for event in events)


@pytest.mark.usefixtures("acknowledges_at_once")
class TestViolations:
    def test_the_report_and_the_line_that_runs_it_again(self, capsys: pytest.CaptureFixture[str]) -> None:
        options = ["--faults", "network,process", *QUICK]
        assert run(["simulate", "--seed", "3", *options]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert re.match(r"seed 3: invariant 11 \(.*\) is violated at \d+\.\d{6} s", lines[0])
        replays = [line.removeprefix("run it again: ") for line in lines if line.startswith("run it again: ")]
        assert replays == ["kraft simulate --seed 3 --nodes 3 --observers 0 --time 4s --faults network,process"]
        assert lines[-2].endswith(", 1 violations")
        assert run(replays[0].split()[1:]) == 1
        again = capsys.readouterr().out.splitlines()
        assert again[:-2] == lines[:-2]
        assert run(["simulate", "--seed", "3", *options, "--json"]) == 1
        [violation] = json.loads(capsys.readouterr().out)["violations"]
        assert (violation["rule"], violation["replay"]) == ("invariant 11", replays[0])

    def test_every_violation_of_a_campaign(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["simulate", "--seeds", "3:5", "--jobs", "1", "--faults", "none", *QUICK]) == 1
        out = capsys.readouterr().out
        assert "seed 3: invariant 11" in out
        assert "seed 4: invariant 11" in out

    @pytest.mark.rotating(2)
    def test_shrunk_to_a_script_that_fails(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert run(["simulate", "--seeds", "3:5", "--jobs", "1", *QUICK, "--shrink"]) == 1
        captured = capsys.readouterr()
        text = captured.out[captured.out.index("# Shrunk from: ") :]
        assert "# Shrunk from: kraft simulate --seed 3 --nodes 3 --observers 0 --time 4s\n# invariant 11 (" in text
        assert len(parse_script(text).header.voters) == 2
        path = tmp_path / "shrunk.txt"
        path.write_text(text)
        assert run(["simulate", str(path)]) == 1
        assert "invariant 11" in capsys.readouterr().out


class TestScripts:
    @pytest.fixture
    def write(self, tmp_path: Path) -> Callable[[str], str]:
        def write(text: str, name: str = "scenario.txt") -> str:
            (tmp_path / name).write_text(text)
            return str(tmp_path / name)

        return write

    def test_what_comes_of_each_step_is_printed_below_it(
        self, write: Callable[[str], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = write(SCRIPT)
        assert run(["simulate", path]) == 0
        first, *lines, last = capsys.readouterr().out.splitlines()
        assert first == f"# {path}"
        assert re.fullmatch(rf"# {re.escape(path)}: as expected, \d+\.\d+ virtual seconds", last)
        expected = run_script(parse_script(SCRIPT))
        assert lines == [text for line in expected.script.step_lines for text in line.printed()]
        assert len(lines) > 3

    def test_an_expectation_that_is_not_met(
        self, write: Callable[[str], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        good, bad = write(SCRIPT, "good.txt"), write(SCRIPT.replace("leader 2", "leader 3"), "bad.txt")
        assert run(["simulate", bad, good]) == 1
        out = capsys.readouterr().out
        assert f"{bad}, line 7: " in out
        assert f"# {good}: as expected" in out

    def test_nothing_is_run_where_one_cannot_be_read(
        self, write: Callable[[str], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        good, bad = write(SCRIPT, "good.txt"), write("voters 1\nfly 1\n", "bad.txt")
        assert run(["simulate", good, bad]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"kraft: error: {bad}, line 2: unknown verb 'fly'; expected one of ")
        assert captured.err.count("\n") == 1

    def test_the_trace_of_one(self, write: Callable[[str], str], tmp_path: Path) -> None:
        path = write(SCRIPT)
        assert run(["simulate", path, "--trace", str(tmp_path / "trace")]) == 0
        with open_trace(tmp_path / "trace") as (header, events):
            assert (header.seed, header.command, header.script) == (4, f"kraft simulate {path}", SCRIPT)
            assert any(event.kind == "role" for event in events)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (
            ["--seeds", "5"],
            2,
            "--seeds 5: expected A:B, two whole numbers, the second the larger",
        ),
        (
            ["--seeds", "5:5"],
            2,
            "--seeds 5:5: expected A:B, two whole numbers, the second the larger",
        ),
        (
            ["--seeds", "-1:5"],
            2,
            "--seeds -1:5: expected A:B, two whole numbers, the second the larger",
        ),
        (["--seed", "1", "--seeds", "1:2"], 2, "--seed and --seeds exclude each other"),
        (["--ndjson"], 2, "--ndjson needs --trace FILE"),
        (["--messages"], 2, "--messages needs --trace FILE"),
        (
            ["--time", "10"],
            2,
            "--time 10: expected a duration, as in 500ms, 60s, 10m or 2h",
        ),
        (["--time", "0s"], 2, "--time: 0s; expected more"),
        (["--nodes", "0"], 2, "--nodes: 0; expected 1 to 9"),
        (
            ["--faults", "all,gremlins"],
            2,
            "--faults: 'all'; expected all, none, or some of network, disk, process, time, versions, membership, "
            "snapshots",
        ),
        (
            ["--seeds", "1:3", "--trace", "x"],
            2,
            "--trace x: one file for 2 seeds; expected {seed} in its name",
        ),
        (["--trace", "/no/such/place", "--seed", "1"], 1, "/no/such/place: No such file or directory"),
    ],
)
def test_a_command_line_that_makes_no_sense(
    arguments: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *arguments]) == exit_code
    hint = " (see kraft simulate --help)" if exit_code == 2 else ""
    assert capsys.readouterr().err == f"kraft: error: {message}{hint}\n"


@pytest.mark.parametrize("option", [["--seed", "1"], ["--nodes", "3"], ["--time", "60s"], ["--shrink"]])
def test_a_script_says_all_of_it_by_itself(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text(SCRIPT)
    assert run(["simulate", str(path), *option]) == 2
    assert f"{option[0]} and FILE exclude each other" in capsys.readouterr().err


def test_one_trace_for_two_scripts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text(SCRIPT)
    assert run(["simulate", str(path), str(path), "--trace", str(tmp_path / "x")]) == 2
    assert "one file for 2 scripts; expected one script" in capsys.readouterr().err


def test_a_script_that_is_no_text_is_refused_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.txt"
    path.write_bytes(b"voters 1\nelect \xff\n")
    assert run(["simulate", str(path)]) == 1
    assert f"{path}, line 2: expected text in UTF-8" in capsys.readouterr().err


def test_a_script_cannot_set_what_the_simulator_gives_each_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text("voters 1\nset node.id 9\n")
    assert run(["simulate", str(path)]) == 1
    assert "line 2: node.id is what the simulator gives each node; expected another key" in capsys.readouterr().err


def test_an_interrupt_is_one_line_whatever_task_it_strikes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(_cluster: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.recover, "does", interrupted)
    assert run(["simulate", "--seed", "1", "--time", "1s"]) == 130
    assert "Traceback" not in capsys.readouterr().err
