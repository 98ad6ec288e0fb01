"""Tests of storage, network and nodes as if Python had been built for macOS: see harness/portable.py.

A run of some files in the mode for each commit, and of all in the nightly run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from harness import portable
from tests.support import sizes
from tests.support.programs import REPOSITORY
from tests.system.typeshed import names_of

FOLDERS = ("tests/storage", "tests/wire", "tests/http", "tests/security", "tests/tracing", "tests/system")
NODES = (
    "tests/acceptance/test_killed_quorum.py",
    "tests/acceptance/test_lost_leaders.py",
    "tests/acceptance/test_metrics.py",
    "tests/acceptance/test_snapshot_kills.py",
    "tests/acceptance/test_snapshots.py",
    "tests/acceptance/test_refused_starts.py",
    "tests/storage/test_snapshot_kill.py",
)
OF_THIS_RUN = ("KRAFT_TEST_WHOLE", "KRAFT_TEST_ALL", "PYTHONPATH")
"""Variables that say how much this run covers, and what its processes import."""
HERE = "tests/system/test_portable_mode.py"


def files() -> list[str]:
    paths = (path for folder in FOLDERS for path in sorted((REPOSITORY / folder).glob("test_*.py")))
    return [path for one in paths if (path := str(one.relative_to(REPOSITORY))) != HERE]


def run(*arguments: str) -> int:
    """Run tests in the mode; how many passed, which is all."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_THIS_RUN}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=environment | {"KRAFT_TEST_PORTABLE": "1"},
        check=False,
    )
    assert done.returncode in (0, 5), done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    return int(passed[1]) if passed else 0


@pytest.mark.skipif(sizes.IS_ALL, reason="the nightly run has all in one")
@pytest.mark.parametrize("file", sizes.part(files(), len(files()) // 2))
def test_file_passes_without_what_only_linux_has(file: str) -> None:
    run(file, "-m", "not acceptance")


@pytest.mark.nightly
def test_folders_pass_without_what_only_linux_has() -> None:
    assert run(*FOLDERS, "--ignore", HERE, "-m", "not acceptance", "-n", "2") > 2000


@pytest.mark.acceptance
@pytest.mark.nightly
@pytest.mark.parametrize("file", NODES)
def test_nodes_pass_without_what_only_linux_has(file: str) -> None:
    assert run(file) > 0


@pytest.mark.acceptance
@pytest.mark.rotating(4)
def test_a_killed_quorum_without_what_only_linux_has_keeps_what_it_acknowledged() -> None:
    assert run(NODES[0]) == 1


def test_what_is_taken_away_is_what_typeshed_knows_for_linux_alone() -> None:
    taken = portable.only_linux()
    assert set(taken) == {"os", "select", "signal", "socket", "time"}
    for module, names in taken.items():
        missing = names_of(module, "linux") - names_of(module, "darwin") - set(names)
        assert not missing, f"harness/only-linux.txt: {module} without {sorted(missing)}"


def test_the_package_runs_without_it() -> None:
    program = """
from harness import portable
portable.take_away()
import os, socket
assert not hasattr(os, "eventfd") and not hasattr(os, "fdatasync") and not hasattr(socket, "TCP_INFO")
from kraft_trio.storage.disk import disk_threads, file_syncs
from kraft_trio.system import file_systems, wake_ups
assert file_syncs.sync_data is os.fsync
assert disk_threads.wake is wake_ups.wake_by_socket
assert file_systems.kind_of("/") is None
assert Path("/proc/self/mountinfo").read_text()
"""
    command = [sys.executable, "-c", f"from pathlib import Path\n{program}"]
    subprocess.run(command, check=True, cwd=REPOSITORY)
