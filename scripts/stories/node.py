"""One `kraft server start` process of a story, in a directory that it shares with the others."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from kraft_trio.protocol.types import Endpoint, ReplicaKey, directory_id_from_text

KRAFT = Path(sys.executable).with_name("kraft")
LISTEN_WITHIN_S = 30
STOP_WITHIN_S = 20

_PORTS = range(20000, 32000)
"""Below those that the kernel gives to outgoing connections: nobody takes the port of a node that is down."""


class StoryError(Exception):
    """The story did not go as it is told; the message says what was expected, and what is."""


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback interface that nobody listens on now."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


class Node:
    """A node: its configuration file, its directory, and the process that runs it at the moment, if any."""

    def __init__(self, node_id: int, home: Path, port: int) -> None:
        self.id = node_id
        self.endpoint = Endpoint("127.0.0.1", port)
        self.properties = home / f"node-{node_id}.properties"
        self.directory = home / f"node-{node_id}"
        self.log = home / f"node-{node_id}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return f"node {self.id}"

    def write_properties(self, properties: Mapping[str, str]) -> None:
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    @property
    def directory_id(self) -> str:
        """As `kraft storage format` has made it, in its text form."""
        lines = (self.directory / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, directory_id_from_text(self.directory_id))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log_text(self) -> str:
        """What all processes of this node have logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def start(self) -> None:
        """Start a process and wait until it listens.  Raises StoryError where it ends instead, or takes too long."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [KRAFT, "server", "start", "-c", self.properties.name],
                cwd=self.properties.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at a terminal is for the story alone, which then stops its nodes one by one.
                start_new_session=True,
            )
        deadline = time.monotonic() + LISTEN_WITHIN_S
        while not self._listens():
            code = self._process.poll()
            if code is not None:
                raise StoryError(f"{self} ended with code {code}: {self.log_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise StoryError(f"{self} does not listen on {self.endpoint} after {LISTEN_WITHIN_S} s")
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.endpoint.host, self.endpoint.port)) == 0

    def ask_to_stop(self) -> None:
        """SIGTERM: a leader hands over first."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def wait_until_stopped(self, deadline: float) -> bool:
        """Whether the process ended by itself before `deadline` (`time.monotonic`); otherwise it is killed."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._process is not None and self.running:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait()
