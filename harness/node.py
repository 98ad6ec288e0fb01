"""One `kraft server start` process on loopback, signalled by its process id, with its log in a file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.command import KraftProcess, start_kraft
from harness.segments import written_bytes
from harness.waiting import WAIT_SECONDS, Overdue, wait_until
from kraft_trio.protocol.types import Endpoint

START = "--- start ---\n"
"""Separates the processes in the node's log."""


class NodeProcess:
    """A node: its directory, its configuration file, and the latest process that ran it, if any."""

    log_format = "json"
    working_directory: Path | None = None
    has_own_session = False
    """Whether Ctrl-C at a terminal interrupts only the parent, which then stops its nodes."""

    def __init__(self, node_id: int, directory: Path, port: int) -> None:
        self.id = node_id
        self.directory = directory
        self.endpoint = Endpoint("127.0.0.1", port)
        self.properties = directory.with_suffix(".properties")
        self.log = directory.with_suffix(".stderr")
        self._process: KraftProcess | None = None

    def __str__(self) -> str:
        return f"node {self.id}"

    def write_properties(self, properties: Mapping[str, object]) -> None:
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    @property
    def partition_directory(self) -> Path:
        return self.directory / "__cluster_metadata-0"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """The exit code of the latest process, which has ended; negative if a signal ended it."""
        assert self._process is not None
        assert self._process.returncode is not None
        return self._process.returncode

    def start(
        self,
        overrides: Sequence[str] = (),
        options: Sequence[str] = (),
        *,
        prefix: Sequence[str] = (),
        stderr: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a process, for the first time or again, without waiting until it listens.

        `overrides` are KEY=VALUE settings, `options` further arguments.  `prefix` is a command that runs the node, such
        as `prlimit --nofile=256`.  `stderr` replaces the node's log.  `environment` is added to this process's own.
        """
        assert not self.running
        arguments = [part for override in overrides for part in ("--override", override)] + list(options)
        with self.log.open("ab") as log:
            log.write(START.encode())
            log.flush()
            command = ["server", "start", "-c", str(self.properties), "--log-format", self.log_format]
            self._process = start_kraft(
                [*command, *arguments],
                stdout=log,
                stderr=stderr or log,
                cwd=self.working_directory,
                prefix=prefix,
                environment=environment,
                start_new_session=self.has_own_session,
            )

    def wait_until_listening(self, seconds: float = WAIT_SECONDS) -> None:
        """Raises Overdue, or AssertionError if the process ends first."""

        def connects() -> bool:
            assert self.running, f"{self} ended with code {self.exit_code}: {self.log_text()[-2000:]}"
            try:
                socket.create_connection((self.endpoint.host, self.endpoint.port), timeout=1).close()
            except OSError:
                return False
            return True

        wait_until(f"{self} listens on {self.endpoint}", connects, seconds)

    def send(self, signal_number: signal.Signals) -> None:
        """Send a signal to the process, which is running."""
        assert self._process is not None
        self._process.send_signal(signal_number)

    def pause(self) -> None:
        """SIGSTOP; returns when every thread of the process has stopped."""
        assert self._process is not None
        self.send(signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self} ended instead of stopping: {status}"

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; do nothing if no process runs."""
        if self.running:
            self.send(signal.SIGKILL)
            self.wait()

    def stop(self, signal_number: signal.Signals = signal.SIGTERM, seconds: float = WAIT_SECONDS) -> int:
        """Ask the process to stop, wait for the end and return its exit code.  Raises Overdue."""
        self.send(signal_number)
        return self.wait(seconds)

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        """Wait for the end of the process and return its exit code.  Raises Overdue."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Overdue(f"{self} has not ended after {seconds:g} s") from None

    def log_text(self) -> str:
        """Return the output of all the node's processes, the latest last."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_events(self) -> list[dict[str, Any]]:
        """Return the complete log lines of the latest process."""
        text = self.log_text().rpartition(START)[2]
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log_bytes(self) -> bytes:
        """Return the partition's log on disk, segment after segment, without what is preallocated in the last one."""
        return b"".join(written_bytes(path) for path in sorted(self.partition_directory.glob("*.log")))

    def quorum_state_bytes(self) -> bytes:
        return (self.partition_directory / "quorum-state").read_bytes()


def stop_all(nodes: Collection[NodeProcess], seconds: float = WAIT_SECONDS) -> list[NodeProcess]:
    """Send SIGTERM to all running nodes at once, and SIGKILL to those that still run after `seconds`.

    Returns the nodes that it killed.
    """
    running = [node for node in nodes if node.running]
    for node in running:
        node.send(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    killed = []
    for node in running:
        try:
            node.wait(max(0.1, deadline - time.monotonic()))
        except Overdue:
            node.kill()
            killed.append(node)
    return killed
