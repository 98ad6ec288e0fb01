"""The `kraft` process and what it is connected to: pipes that nobody reads, full disks, closed streams, any locale."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraft_trio.cli.terminal.colors import is_terminal, takes_colors
from kraft_trio.cli.terminal.exit_codes import ExitCode
from kraft_trio.cli.terminal.progress import stderr_console

KRAFT = [sys.executable, "-m", "kraft_trio"]
MAPPING = ["features", "version-mapping"]


def kraft(words: Sequence[str], **how: object) -> subprocess.CompletedProcess[str]:
    given = {"stderr": subprocess.PIPE, "text": True, "encoding": "utf-8", "timeout": 60, **how}
    return subprocess.run([*KRAFT, *words], check=False, **given)  # type: ignore[call-overload, no-any-return]


def test_the_module_is_the_command() -> None:
    done = kraft(["--help"], stdout=subprocess.PIPE)
    assert done.stdout.startswith("Usage: kraft [OPTIONS] COMMAND [ARGS]...")


@pytest.mark.parametrize("words", [["--help"], MAPPING, ["fly"]])
def test_output_that_nobody_reads_ends_the_command_without_a_word(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = kraft(words, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (
        (ExitCode.USAGE, "kraft: error: No such command 'fly'. (see kraft --help)\n")
        if words == ["fly"]
        else (ExitCode.READER_GONE, "")
    )


@pytest.mark.linux
@pytest.mark.parametrize("words", [["--help"], MAPPING])
def test_a_full_disk_behind_stdout_is_one_error(words: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = kraft(words, stdout=full)
    assert (done.returncode, done.stderr) == (ExitCode.FAILURE, "kraft: error: No space left on device\n")


def test_errors_that_cannot_be_told_keep_their_exit_code() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert kraft(["fly"], stderr=writing).returncode == ExitCode.USAGE
    finally:
        os.close(writing)


def test_a_closed_stdin_is_an_empty_one(tmp_path: Path) -> None:
    words = shlex.join([*KRAFT, "storage", "add-scram", "-c", "none.properties", "-"])
    node = tmp_path / "none.properties"
    node.write_text(f"node.id=1\nmetadata.log.dir={tmp_path}/log\nlisteners=CONTROLLER://localhost:9093\n")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{words} <&-"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.FAILURE
    assert "kraft: error: stdin: no users in it; expected lines such as" in done.stderr


def test_no_locale_and_no_bytes_lead_to_a_traceback() -> None:
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = kraft(["kv", "--help"], stdout=subprocess.PIPE, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = subprocess.run([*KRAFT, b"\xff\x1b[2J"], capture_output=True, check=False, env=ascii_only)
    assert wrong.returncode == ExitCode.USAGE
    assert wrong.stderr == b"kraft: error: No such command '\\udcff\\x1b[2J'. (see kraft --help)\n"


class Stream:
    def __init__(self, is_a_terminal: bool) -> None:
        self._is_a_terminal = is_a_terminal

    def isatty(self) -> bool:
        return self._is_a_terminal


@pytest.mark.parametrize(
    ("variables", "at_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_who_gets_colours(
    variables: dict[str, str], at_terminal: bool, in_pipe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (takes_colors(Stream(True)), takes_colors(Stream(False))) == (at_terminal, in_pipe)
    monkeypatch.setattr(sys, "stderr", Stream(False))
    assert not stderr_console().is_terminal
    monkeypatch.setattr(sys, "stderr", Stream(True))
    assert stderr_console().is_terminal is is_terminal(Stream(True)) is (variables.get("TERM") != "dumb")


@pytest.mark.parametrize(("variables", "has_colors"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_log_of_a_node_has_the_colours_that_the_terminal_takes(
    variables: dict[str, str], has_colors: bool, tmp_path: Path
) -> None:
    """The node warns about its open files, then refuses its directory."""
    node = tmp_path / "node.properties"
    node.write_text(f"node.id=1\nmetadata.log.dir={tmp_path}/log\nlisteners=CONTROLLER://localhost:19093\n")
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    reading, writing = pty.openpty()
    words = ["server", "start", "-c", str(node), "--override", "max.connections=2147483647"]
    done = kraft(words, stderr=writing, env={**plain, "TERM": "xterm", **variables})
    os.write(writing, b"END")  # A system may drop what has not been read when the last writer closes.
    told = b""
    while not told.endswith(b"END"):
        told += os.read(reading, 65536)
    os.close(writing)
    os.close(reading)
    assert done.returncode == ExitCode.FAILURE
    assert b"fewer connections than max.connections" in told
    assert (b"\x1b[" in told) is has_colors


def test_only_one_place_makes_consoles() -> None:
    package = Path(__file__).parents[2] / "kraft_trio"
    makers = [path.name for path in package.rglob("*.py") if "Console(" in path.read_text()]
    assert makers == ["progress.py"]
