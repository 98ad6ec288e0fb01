"""What an attack costs each node: the longest turn of its event loop, its answers, and its memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from harness.node import NodeProcess
from harness.raw_connection import RawConnection
from kraft_trio.metrics.metrics_file import METRICS_FILE, read_metrics
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from scripts.common.background import Background

BETWEEN_QUESTIONS_S = 0.05
HANGS_AFTER_S = 30.0


class Gauge(Background):
    """Asks one node for its versions through the controller listener, over and over, in a thread of its own."""

    join_s = HANGS_AFTER_S + 1

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(f"gauge {node.id}")
        self.node = node
        self._pid = node.pid
        self.longest_silence_s = 0.0
        """The longest time that the node took for an answer, on a connection that it had accepted."""
        self.is_silent = False
        """A question was not answered for so long that nobody waits for the answer any more."""
        reset_peak_memory(node.pid)

    @property
    def peak_mib(self) -> float:
        """Of a process that began meanwhile without the log's pages: it has looked through them, in the page cache."""
        if not self.node.running:
            return 0.0
        return memory_mib(self.node.pid, "VmHWM" if self.node.pid == self._pid else "RssAnon")

    @property
    def longest_turn_s(self) -> float:
        """The longest turn of the node's event loop since its process began, in CPU time, by its own watchdog."""
        return longest_turn_ms(self.node) / 1000

    def complaints(self) -> Iterator[str]:
        """What was wrong with the node, or with this gauge, after which its figures mean nothing."""
        if self.is_silent:
            yield f"node {self.node.id} did not answer its controller listener for {HANGS_AFTER_S:.0f} s"
        if self.error is not None:
            yield f"the gauge of node {self.node.id} failed: {self.error!r}"

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with RawConnection(self.node.endpoint, HANGS_AFTER_S) as connection:
                    while not self.stopping.wait(BETWEEN_QUESTIONS_S):
                        self._ask(connection)
            except TimeoutError:
                self.is_silent = True
            except OSError:
                self.stopping.wait(BETWEEN_QUESTIONS_S)

    def _ask(self, connection: RawConnection) -> None:
        began = time.monotonic()
        connection.request(API_VERSIONS, ApiVersionsRequest())
        self.longest_silence_s = max(self.longest_silence_s, time.monotonic() - began)


def longest_turn_ms(node: NodeProcess) -> float:
    """Return the CPU time that the node measured itself, or 0 before it has written metrics."""
    path = node.directory / METRICS_FILE
    if not path.exists():
        return 0.0
    return float(read_metrics(str(path), path.read_bytes()).values.get("event-loop-cpu-max-ms", 0.0))


def reset_peak_memory(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def memory_mib(pid: int, line_name: str) -> float:
    """A line of what Linux reports about a process; VmHWM is the most resident memory since `reset_peak_memory`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{line_name}:"))
