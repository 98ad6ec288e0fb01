"""Processes that the harness forks behave as those that it starts by exec."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness import command, fork_server
from harness.command import FORK_SERVER, kraft
from harness.fork_server import ForkedProcess, ForkServer
from harness.waiting import wait_until
from tests.acceptance.conftest import MakeQuorum
from tests.support.programs import REPOSITORY


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """One of the test's own."""
    made = ForkServer()
    monkeypatch.setenv(FORK_SERVER, "1")
    monkeypatch.setattr(command, "_fork_server", lambda: made)
    yield made
    made.close()


@pytest.mark.rotating(3)
@pytest.mark.parametrize("line", ["--version", "storage --help", "nonsense", "log verify -d /"])
def test_a_command_says_and_returns_the_same(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    forked = kraft(*line.split())
    monkeypatch.delenv(FORK_SERVER)
    by_exec = kraft(*line.split())
    assert vars(by_exec) == vars(forked)
    assert forked.stdout or forked.stderr


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process refer to, except its standard streams."""
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # the process has closed it meanwhile
            if int(path.name) > 2:
                found.add(os.readlink(path))
    return found


def test_a_node_inherits_no_descriptors(server: ForkServer, make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=1)
    with open(__file__) as inherited:
        os.set_inheritable(inherited.fileno(), True)
        quorum.start()
    [node] = quorum.nodes.values()
    assert isinstance(node._process, ForkedProcess)
    assert __file__ not in open_files(node.pid)
    # libffi may keep its own file open.
    assert {path for path in open_files(node.pid) & open_files(server.pid) if "/libffi." not in path} == set()


def test_a_signal_that_ends_the_process_is_its_exit_code(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=1)
    quorum.start()
    quorum.nodes[1].kill()
    assert quorum.nodes[1].exit_code == -signal.SIGKILL


def test_a_server_that_was_killed_is_named(server: ForkServer) -> None:
    assert kraft("--version").returncode == 0
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="fork server ended with code -9"):
        kraft("--version")


def test_the_server_ends_with_the_process_that_started_it() -> None:
    server = f"from {fork_server.__name__} import ForkServer; print(ForkServer().pid)"
    program = f"import os; {server}; os.kill(os.getpid(), 9)"
    started = subprocess.run([sys.executable, "-uc", program], cwd=REPOSITORY, stdout=subprocess.PIPE, check=False)
    assert started.returncode == -signal.SIGKILL
    wait_until("the server ends", lambda: not Path(f"/proc/{int(started.stdout)}").exists())
