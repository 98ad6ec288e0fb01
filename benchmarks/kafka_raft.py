"""Three of Apache Kafka's TestRaftServer, its own program for measuring its raft, with `loads/RaftLoad.java` in them.

scripts/get-kafka gets Kafka, or KAFKA_HOME names an unpacked one of 4.1 or newer.
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import attrs
import trio

from benchmarks.children import Child, poll_until, run_to_end, start_child, stopping
from benchmarks.measurement import LoadResult
from harness.kafka import LIBRARIES, why_no_kafka
from harness.ports import free_ports

LOAD = Path(__file__).parent / "loads" / "RaftLoad.java"
START_SECONDS = 90.0
END_SECONDS = 60.0
"""How long the last records of a load may take to commit."""


def why_unavailable() -> str | None:
    """Say why Kafka's raft cannot be measured here, in one line; None if it can."""
    return why_no_kafka(compiler=True)


@attrs.define
class KafkaRaft:
    """A running quorum; made by `started`."""

    directory: Path
    ports: dict[int, int]
    data: Mapping[int, Path]
    """Where nodes have their data that have it elsewhere."""
    children: dict[int, Child] = attrs.field(factory=dict)

    @classmethod
    @asynccontextmanager
    async def started(
        cls, directory: Path, data: Mapping[int, Path] = MappingProxyType({})
    ) -> AsyncIterator[KafkaRaft]:
        """Start a new quorum, wait for a leader, and stop the quorum on exit.

        Its data is in `data`, by node, or below `directory`.
        """
        await trio.Path(directory).mkdir(parents=True)
        await run_to_end(["javac", "-cp", f"{LIBRARIES}/*", "-d", str(directory), str(LOAD)], START_SECONDS)
        quorum = cls(directory, dict(zip((1, 2, 3), free_ports(3), strict=True)), data)
        async with stopping(quorum.children):
            for node in quorum.ports:
                await quorum._start(node)
            await quorum.leader()
            yield quorum

    async def _start(self, node: int) -> None:
        settings = {
            "process.roles": "controller",
            "node.id": node,
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items()),
            # Ours waits for no others to share a batch, either.
            "controller.quorum.append.linger.ms": 0,
            # A JVM that starts is slow: nobody may take its pauses for a lost leader.
            "controller.quorum.fetch.timeout.ms": 20_000,
            "log.dirs": self.data.get(node, self.directory / f"node-{node}"),
        }
        properties = self.directory / f"node-{node}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        directory_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        class_path = f"{self.directory}:{LIBRARIES}/*"
        command = ["java", "-Xmx1g", "-cp", class_path, "RaftLoad", str(properties), directory_id]
        self.children[node] = await start_child(
            f"Kafka's node {node}", command, self.directory / f"node-{node}.log", stdin=subprocess.PIPE
        )

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self.children.values()]

    async def leader(self) -> int:
        """Return the id of the node that says last that it leads.  Raises BenchmarkError."""

        async def find() -> int | None:
            epochs = {}
            for node, child in self.children.items():
                child.check_running()
                epochs[node] = max((int(line.split()[1]) for line in _lines(child, "leads ")), default=0)
            return max(epochs, key=lambda node: epochs[node]) if any(epochs.values()) else None

        return await poll_until("leader of Kafka's raft", START_SECONDS, find)

    async def load(self, rate: int, warm_up_seconds: float, seconds: float, value_bytes: int) -> LoadResult:
        """Append single records at that rate a second in the leader's process.  Raises BenchmarkError."""
        leader = self.children[await self.leader()]
        known = len(_lines(leader, "{"))
        assert leader.process.stdin is not None
        await leader.process.stdin.send_all(f"{rate} {warm_up_seconds} {seconds} {value_bytes}\n".encode())

        async def finish() -> LoadResult | None:
            leader.check_running()
            answers = _lines(leader, "{")
            return LoadResult.from_json(answers[-1]) if len(answers) > known else None

        return await poll_until("answer of Kafka's leader", warm_up_seconds + seconds + END_SECONDS, finish)


def _lines(child: Child, start: str) -> list[str]:
    """Return the complete lines of the child's output that begin so."""
    lines = child.log.read_text(errors="replace").splitlines(keepends=True)
    return [line for line in lines if line.startswith(start) and line.endswith("\n")]
