"""Paths in a directory that may not be entered: nothing is known of them, and nobody shall think that data is gone."""

from __future__ import annotations

import os

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
