"""The `kraft` command as a whole: help, exit codes, and errors that are one line."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from kraft_trio.cli import kraft, main, run
from kraft_trio.cli.terminal.config_option import read_config
from kraft_trio.cli.terminal.exit_codes import ExitCode
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


@pytest.mark.parametrize(
    ("line", "meant", "path"),
    [
        ("server node.properties", "kraft server start -c node.properties", "kraft server"),
        ("server stat", "kraft server start", "kraft server"),
        ("server run", "kraft server start", "kraft server"),
        ("servr start -c node.properties", "kraft server", "kraft"),
        ("metadata-quorum descibe", "kraft metadata-quorum describe", "kraft metadata-quorum"),
    ],
)
def test_a_wrong_command_is_told_the_one_that_was_meant(
    line: str, meant: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = next(word for word in line.split() if word not in path.split())
    assert run(line.split()) == 2
    error = f"No such command '{wrong}': did you mean `{meant}`? (see {path} --help)"
    assert capsys.readouterr().err == f"kraft: error: {error}\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "metadata-quorum describe --status --bootstrap-server a:1",
            "give it before `describe`, as in `kraft metadata-quorum --bootstrap-server HOST:PORT[,…] describe …` "
            "(see kraft metadata-quorum describe --help)",
        ),
        (
            "metadata-quorum --status describe",
            "give it after `describe`, as in `kraft metadata-quorum describe --status …` "
            "(see kraft metadata-quorum --help)",
        ),
        (
            "--bootstrap-controller a:1 metadata-quorum describe",
            "give it after `metadata-quorum`, as in `kraft metadata-quorum --bootstrap-controller HOST:PORT[,…] …` "
            "(see kraft --help)",
        ),
        (
            "server -c node.properties start",
            "give it after `start`, as in `kraft server start -c FILE …` (see kraft server --help)",
        ),
    ],
)
def test_a_misplaced_option_is_told_its_place(line: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err.endswith(f": {hint}\n")


@pytest.mark.parametrize(
    ("content", "overrides", "error"),
    [
        ("node.id=x\n", [], "{file}: node.id=x; expected a whole number"),
        ("# no properties of a node\n", [], "{file}: node.id: not set; expected"),
        ("node.id=1\n", ["node.id=x"], "--override node.id=x; expected a whole number"),
        (None, [], "{file}: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said_of_its_place(
    content: str | None, overrides: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.properties"
    if content is not None:
        file.write_text(content)
    options = [part for override in overrides for part in ("--override", override)]
    assert run(["server", "start", "-c", str(file), *options]) == ExitCode.CONFIGURATION
    assert capsys.readouterr().err.startswith(f"kraft: error: {error.format(file=file)}")


def test_a_misspelled_override_is_not_blamed_on_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.properties"
    file.write_text("node.id=1\nnod.role=x\nmetadata.log.dir=nowhere\nlisteners=CONTROLLER://h:1\n")
    read_config(str(file), {"nod.ids": "2"})
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith(f"kraft: warning: {file}: nod.role: unknown key")
    assert second.startswith("kraft: warning: --override nod.ids: unknown key")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kraft, version ")


def test_help_is_also_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == run(["--help"]) == 0
    of_all = capsys.readouterr().out
    assert of_all == 2 * of_all[: len(of_all) // 2]
    assert run(["help", "server", "start"]) == 0
    assert capsys.readouterr().out.startswith("Usage: kraft server start ")
    assert run(["help", "fly"]) == 2


def test_main_ends_the_process_with_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["kraft", "dump-log", str(tmp_path / "0.log")])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2


def test_a_node_does_not_start_with_rich_and_prometheus() -> None:
    """structlog would import rich where it is installed."""
    program = (
        "import sys; from kraft_trio.cli import main\n"
        "sys.argv = ['kraft', 'server', 'start', '-c', 'missing.properties']\n"
        "try: main()\n"
        "except SystemExit: print({'structlog', 'rich', 'prometheus_client', 'cattrs'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == {"structlog"}


def test_the_help_imports_no_command() -> None:
    program = (
        "import sys; from kraft_trio.cli import run\n"
        "run(['--help'])\n"
        "print({'trio', 'attrs', 'structlog', 'rich'} & sys.modules.keys(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"
    assert "Format, inspect and recover nodes' directories." in done.stdout


@pytest.mark.parametrize("width", [200, 50])
def test_the_help_shows_what_the_commands_say_of_themselves(width: int) -> None:
    context = click.Context(kraft, info_name="kraft")
    ours, clicks = click.HelpFormatter(width=width), click.HelpFormatter(width=width)
    kraft.format_commands(context, ours)
    click.Group.format_commands(kraft, context, clicks)
    assert ours.getvalue() == clicks.getvalue()
