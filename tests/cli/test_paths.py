"""Paths in a directory that may not be entered: nothing is known of them, and nobody shall think that data is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraft_trio.cli import run

COMMANDS = (["dump-log"], ["log", "verify"], ["snapshot", "verify"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_forbidden_path_is_not_called_missing(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stat = os.stat

    def denied(path: str, *rest: object, **more: object) -> os.stat_result:
        if path == "/secret/0.log":
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", denied)
    assert run([*command, "/secret/0.log"]) == 2
    assert "'/secret/0.log' cannot be read: Permission denied. (see kraft" in capsys.readouterr().err


def test_an_empty_path_is_not_this_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seeds", "0:1", "--state", ""]) == 2
    assert capsys.readouterr().err.startswith("kraft: error: Invalid value for '--state': an empty path.")


@pytest.mark.parametrize(
    "command", [["server", "start"], ["storage", "info"], ["metadata-quorum", "explain"]], ids=" ".join
)
def test_directory_of_another_user_is_not_called_missing(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A node's directory may be in one that only the node's user may enter, as in deploy/."""
    lstat, directory = os.lstat, "/secret/node"

    def denied(path: str, *rest: object, **more: object) -> os.stat_result:
        if str(path).startswith(directory):
            raise PermissionError(13, "Permission denied", path)
        return lstat(path, *rest, **more)  # type: ignore[arg-type]

    file = tmp_path / "node.properties"
    file.write_text(
        f"node.id=1\nmetadata.log.dir={directory}\nlisteners=CONTROLLER://127.0.0.1:1\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:1\n"
    )
    monkeypatch.setattr(os, "lstat", denied)
    assert run([*command, "-c", str(file)]) == 1
    told = "".join(capsys.readouterr())
    assert f"{directory}: cannot be " in told
    assert ": Permission denied" in told
    assert "there is no such directory" not in told
