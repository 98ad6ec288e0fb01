"""Backups of a quorum that are sound, and the same damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .directories import write_directories

PARTITION = "__cluster_metadata-0"


@pytest.fixture(scope="session")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four directories, `node-1` to `node-4`; nobody changes them."""
    folder = tmp_path_factory.mktemp("backups")
    write_directories(folder)
    return folder


@pytest.fixture
def damaged(backups: Path, tmp_path: Path) -> Path:
    """The same, a bit of node 2's log in the middle flipped, and a torn tail at node 3."""
    folder = tmp_path / "damaged"
    shutil.copytree(backups, folder)
    in_the_middle = folder / "node-2" / PARTITION / "00000000000000000014.log"
    content = bytearray(in_the_middle.read_bytes())
    content[100] ^= 1
    in_the_middle.write_bytes(content)
    last = folder / "node-3" / PARTITION / "00000000000000000022.log"
    last.write_bytes(last.read_bytes()[:-10])
    return folder
