"""One `kraft server start` process on loopback: started, signalled by its process id, its log kept in a file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from harness.waiting import WAIT_SECONDS, Overdue, wait_until
from kraft_trio.protocol.types import Endpoint

KRAFT = str(Path(sys.executable).with_name("kraft"))
COMMAND_SECONDS = 30.0

_START = "--- start ---\n"
"""Before what a process writes to the node's log."""


def kraft(*arguments: str, seconds: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a `kraft` command to its end, whatever its exit code."""
    return subprocess.run([KRAFT, *arguments], capture_output=True, text=True, timeout=seconds, check=False)


class NodeProcess:
    """A node and whatever process runs it at the moment: none, or the latest of several."""

    def __init__(self, node_id: int, directory: Path, port: int) -> None:
        self.id = node_id
        self.directory = directory
        self.endpoint = Endpoint("127.0.0.1", port)
        self.properties = directory.with_suffix(".properties")
        self.log = directory.with_suffix(".stderr")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def partition_directory(self) -> Path:
        return self.directory / "__cluster_metadata-0"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the latest process."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """Of the latest process, which has ended; negative for the signal that ended it."""
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
    ) -> None:
        """Start a process, new or again, with other command-line options too; does not wait for it to listen.

        `prefix` is a command that runs the node, such as `prlimit --nofile=256`; `stderr` replaces the node's log.
        """
        assert not self.running
        arguments = [part for override in overrides for part in ("--override", override)] + list(options)
        with self.log.open("ab") as log:
            log.write(_START.encode())
            log.flush()
            self._process = subprocess.Popen(
                [*prefix, KRAFT, "server", "start", "-c", str(self.properties), "--log-format", "json", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=stderr or log,
            )

    def wait_until_listening(self, seconds: float = WAIT_SECONDS) -> None:
        """Raises Overdue, or AssertionError when the process ends instead."""

        def connects() -> bool:
            assert self.running, f"node {self.id} ended with code {self.exit_code}: {self.log_text()[-2000:]}"
            try:
                socket.create_connection((self.endpoint.host, self.endpoint.port), timeout=1).close()
            except OSError:
                return False
            return True

        wait_until(f"node {self.id} listens on {self.endpoint}", connects, seconds)

    def send(self, signal_number: signal.Signals) -> None:
        """Send a signal to the process, which has not ended."""
        assert self._process is not None
        self._process.send_signal(signal_number)

    def pause(self) -> None:
        """SIGSTOP; returns when every thread of the process has stopped."""
        assert self._process is not None
        self.send(signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"node {self.id} ended instead of stopping: {status}"

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait for the end; nothing when no process runs."""
        if self.running:
            self.send(signal.SIGKILL)
            self.wait()

    def stop(self, signal_number: signal.Signals = signal.SIGTERM, seconds: float = WAIT_SECONDS) -> int:
        """Ask the process to stop, wait for the end and return its exit code.  Raises Overdue."""
        self.send(signal_number)
        return self.wait(seconds)

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        """Wait for the end of the process; its exit code.  Raises Overdue."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Overdue(f"node {self.id} has not ended after {seconds:g} s") from None

    def log_text(self) -> str:
        """Everything that the node's processes wrote, the latest last."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_events(self) -> list[dict[str, Any]]:
        """What the latest process has logged so far, a line that it has not finished left out."""
        text = self.log_text().rpartition(_START)[2]
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log_bytes(self) -> bytes:
        """The partition's log as it is on disk now, its segments one after the other."""
        return b"".join(path.read_bytes() for path in sorted(self.partition_directory.glob("*.log")))

    def quorum_state_bytes(self) -> bytes:
        return (self.partition_directory / "quorum-state").read_bytes()
