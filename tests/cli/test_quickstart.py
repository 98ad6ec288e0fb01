"""`kraft quickstart` where it cannot succeed; tests/release/test_wheel.py shows what it does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kraft_trio.cli import run


@pytest.mark.acceptance
@pytest.mark.rotating(4)
def test_it_shows_why_a_node_has_ended_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("KRAFT_LOG_LEVEL", "loud")
    assert run(["quickstart", "--once"]) == 1
    *_, last = capfd.readouterr().err.splitlines()
    assert last.startswith("kraft: error: node-1 has ended: kraft: error: ")
    assert "KRAFT_LOG_LEVEL" in last
    assert list(tmp_path.iterdir()) == []
