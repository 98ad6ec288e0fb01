"""The exit codes: what a supervisor is told, and that docs and the systemd unit say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.commands import commands
from kraft_trio import errors
from kraft_trio.cli import run
from kraft_trio.cli.terminal.exit_codes import ExitCode, exit_code

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("error", "of_node", "of_others"),
    [
        (errors.ConfigError(), ExitCode.CONFIGURATION, 1),
        (errors.AddressError(), 1, 1),
        (errors.StorageError(), ExitCode.DIRECTORY, 1),
        (errors.CorruptLogError(), ExitCode.DIRECTORY, 1),
        (errors.CorruptSnapshotError(), ExitCode.DIRECTORY, 1),
        (errors.UnavailableDirectoryError(), 1, 1),
        (errors.AlreadyLockedError(), 1, 1),
        (errors.StorageFailure(), 3, 3),
        (errors.DamagedLogError(), 3, 3),
        (errors.DiskFullError(), 4, 4),
        (errors.NetworkError(), 1, 1),
        (OSError(), 1, 1),
    ],
)
def test_code_of_an_error(error: Exception, of_node: int, of_others: int) -> None:
    assert (exit_code(error, of_node=True), exit_code(error, of_node=False)) == (of_node, of_others)


def test_table_and_unit_agree_on_what_is_not_restarted() -> None:
    page = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text()
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    restarts = dict(re.findall(r"^\| (\d+) \|.*\| (yes|no|) \|$", table, re.MULTILINE))
    assert {code for code, answer in restarts.items() if answer == "yes"} == {"1", "4"}
    unit = (REPOSITORY / "deploy" / "systemd" / "kraft.service").read_text()
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert prevented is not None
    assert {code for code, answer in restarts.items() if answer == "no"} == set(prevented[1].split())
    assert {str(code.value) for code in (ExitCode.CONFIGURATION, ExitCode.DIRECTORY)} <= set(prevented[1].split())


def test_table_and_help_have_all_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text()
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(ExitCode)
    assert run(["--help"]) == ExitCode.SUCCESS
    told = capsys.readouterr().out.partition("Exit codes: ")[2]
    assert [int(code) for code in re.findall(r"(?<!\w)\d+", told)] == list(ExitCode)


def test_the_errors_of_all_commands_have_codes_of_the_table() -> None:
    list(commands())  # which imports their modules
    found = {kind.exit_code for kind in _kinds(errors.KraftError)}
    assert found <= set(ExitCode)
    assert found >= {ExitCode.FAILURE, ExitCode.USAGE, ExitCode.DISK_FAILED, ExitCode.DISK_FULL}


def _kinds(kind: type[errors.KraftError]) -> Iterator[type[errors.KraftError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
