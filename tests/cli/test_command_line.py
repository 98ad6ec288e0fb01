"""The `kraft` command as a whole: help, exit codes, and errors that are one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from kraft_trio.cli import kraft, main, run
from kraft_trio.errors import ConfigError, StorageError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], int]:
    """Run a command whose body raises the given exception; the answer is the exit code."""

    def run_failing(error: BaseException) -> int:
        @click.command()
        def fails() -> None:
            raise error

        monkeypatch.setattr(kraft, "get_command", lambda _ctx, _name: fails)
        return run(["fails"])

    return run_failing


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (ConfigError("node.id=x; expected a number"), 1, "kraft: error: node.id=x; expected a number\n"),
        (StorageError("two\nlines"), 1, "kraft: error: two lines\n"),
        (FileNotFoundError(2, "No such file or directory", "/f"), 1, "kraft: error: /f: No such file or directory\n"),
        (OSError("no errno"), 1, "kraft: error: no errno\n"),
        (KeyboardInterrupt(), 130, "kraft: error: interrupted\n"),
        (BaseExceptionGroup("tasks", [KeyboardInterrupt(), OSError()]), 130, "kraft: error: interrupted\n"),
        (
            ExceptionGroup("tasks", [StorageError("a"), ExceptionGroup("more", [OSError(28, "No space left")])]),
            1,
            "kraft: error: a; No space left\n",
        ),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    failing: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    exit_code: int,
    line: str,
) -> None:
    assert failing(error) == exit_code
    assert capsys.readouterr().err.strip() == line.strip()


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), ExceptionGroup("tasks", [StorageError("a"), ZeroDivisionError()])]
)
def test_a_bug_keeps_its_traceback(failing: Callable[[BaseException], int], error: Exception) -> None:
    with pytest.raises(type(error)):
        failing(error)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("storage", "server", "simulate", "metadata-quorum", "dump-log"):
        assert f"  {name} " in out


@pytest.mark.parametrize("arguments", [[], ["storage"], ["server"]])
def test_a_group_alone_prints_its_help_and_fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "Usage: kraft" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "kraft: error: No such command 'fly'. (see kraft --help)\n"),
        (["server", "start"], "kraft: error: Missing option '-c' / '--config'. (see kraft server start --help)\n"),
        (["dump-log", "--frobnicate"], "kraft: error: No such option '--frobnicate'. (see kraft dump-log --help)\n"),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == message


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kraft, version ")


def test_main_ends_the_process_with_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["kraft", "dump-log", str(tmp_path / "0.log")])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
