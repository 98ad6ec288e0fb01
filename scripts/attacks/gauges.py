"""What an attack costs each node: the longest time its event loop was busy with other things, and its memory."""

from __future__ import annotations

import threading
from pathlib import Path

from kraft_trio.metrics.metrics_file import METRICS_FILE, read_metrics
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from tests.acceptance.node_process import NodeProcess
from tests.acceptance.raw_connection import RawConnection

BETWEEN_QUESTIONS_S = 0.05
HANGS_AFTER_S = 30.0


class Gauge:
    """Asks one node for its versions through the controller listener, over and over, in a thread of its own.

    A stall is what the node's main thread used of a CPU between a question and its answer, so a machine that has no
    time for the node makes none.
    """

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"gauge {node.id}", daemon=True)
        self.longest_stall_s = 0.0
        self.is_silent = False
        """A question was not answered for so long that nobody waits for the answer any more."""
        self._pid = node.pid
        self._longest_turn_ms = longest_turn_ms(node)
        reset_peak_memory(node.pid)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(HANGS_AFTER_S + 1)

    @property
    def peak_mib(self) -> float:
        return peak_memory_mib(self.node.pid) if self.node.running else 0.0

    @property
    def longest_turn_s(self) -> float:
        """By the node's own watchdog, the longest turn of its loop; 0 if it had one as long before."""
        now_ms = longest_turn_ms(self.node)
        before_ms = self._longest_turn_ms if self.node.running and self.node.pid == self._pid else 0.0
        return now_ms / 1000 if now_ms > before_ms else 0.0

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with RawConnection(self.node.endpoint, HANGS_AFTER_S) as connection:
                    while not self._stopped.wait(BETWEEN_QUESTIONS_S):
                        self._ask(connection)
            except TimeoutError:
                self.is_silent = True
            except OSError:
                self._stopped.wait(BETWEEN_QUESTIONS_S)

    def _ask(self, connection: RawConnection) -> None:
        before = loop_cpu_s(self.node.pid)
        try:
            connection.request(API_VERSIONS, ApiVersionsRequest())
        finally:
            self.longest_stall_s = max(self.longest_stall_s, loop_cpu_s(self.node.pid) - before)


def loop_cpu_s(pid: int) -> float:
    """CPU time of the main thread, which runs the event loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def longest_turn_ms(node: NodeProcess) -> float:
    """What the node has measured of itself, in CPU time; 0 while it has written no metrics."""
    path = node.directory / METRICS_FILE
    if not path.exists():
        return 0.0
    return float(read_metrics(str(path), path.read_bytes()).values.get("event-loop-cpu-max-ms", 0.0))


def reset_peak_memory(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_memory_mib(pid: int) -> float:
    """The most resident memory since `reset_peak_memory`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
