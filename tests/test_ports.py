"""Ports that the harness gives to nodes: tests that run at once must not be given the same."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

from harness.ports import free_ports
from tests.support.programs import REPOSITORY

IN_ORDER = (
    "import random; random.sample = lambda ports, _: ports; from harness.ports import free_ports; print(*free_ports(3))"
)


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are tried in the same order each time."""

    def sample(population: Sequence[int], _count: int) -> Sequence[int]:
        return population

    monkeypatch.setattr(random, "sample", sample)


@pytest.mark.usefixtures("in_order")
def test_a_port_is_given_once_though_nobody_listens_yet() -> None:
    first, second = free_ports(3), free_ports(3)
    other_process = subprocess.run(
        [sys.executable, "-c", IN_ORDER], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    given = [*first, *second, *map(int, other_process.stdout.split())]
    assert len(set(given)) == len(given) == 9


def test_its_owner_can_listen_again_and_again() -> None:
    [port] = free_ports(1)
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)) as server:
            with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
                pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
