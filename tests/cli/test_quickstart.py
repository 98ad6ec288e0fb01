"""`kraft quickstart` where it cannot succeed; tests/release/test_wheel.py shows what it does."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from harness.ports import free_ports
from kraft_trio.cli import quickstart, run


@pytest.mark.acceptance
@pytest.mark.rotating(4)
def test_it_shows_why_a_node_has_ended_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program has taken the port of its clients.  What is in the current directory does not matter, nor how the
    temporary one is called.
    """
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "trio.py").write_text("raise SystemExit('not trio')")
    monkeypatch.chdir(tmp_path / "here")
    ports = free_ports(6)
    monkeypatch.setattr(quickstart, "_free_ports", lambda count: ports)
    temporary = tmp_path / r"für alle\temp\u00"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    temporary.mkdir()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", ports[1]))
        other.listen()
        assert run(["quickstart", "--once"]) == 1
    *_, last = capfd.readouterr().err.splitlines()
    assert last.startswith("kraft: error: node-1 has ended: kraft: error: ")
    assert f"127.0.0.1:{ports[1]}" in last
    assert list(temporary.iterdir()) == []
