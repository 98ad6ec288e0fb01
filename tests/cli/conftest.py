"""What tests of command lines give the commands: a quorum without a network, and the files of a new node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_quorum import FakeQuorum, faked
from new_node import written_below


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeQuorum:
    return faked(monkeypatch)


@pytest.fixture
def new_node(tmp_path: Path) -> Callable[..., str]:
    """Writes the files of node 4, and returns the path of its configuration."""
    return written_below(tmp_path)
