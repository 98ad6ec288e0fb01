"""Our nodes as processes on loopback: formatted and started by the `kraft` command, stopped by process id."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import attrs
import trio

from benchmarks.children import Child, free_ports, poll_until, run_to_end, start_child, stopping
from benchmarks.kraft_client import describe_quorum, voters_in_step
from kraft_trio.protocol.types import Endpoint, directory_id_to_text

KRAFT = str(Path(sys.executable).with_name("kraft"))
LEADER_SECONDS = 30.0
CATCH_UP_SECONDS = 120.0

NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


@attrs.define
class KraftCluster:
    """A running quorum; made by `started`."""

    directory: Path
    ports: dict[int, int]
    overrides: Mapping[str, str]
    static_voters: bool = False
    environment: Mapping[str, str] = NO_OVERRIDES
    cluster_id: str = attrs.field(init=False, default="")
    children: dict[int, Child] = attrs.field(factory=dict)

    @classmethod
    @asynccontextmanager
    async def started(
        cls,
        directory: Path,
        overrides: Mapping[str, str],
        voters: int = 3,
        *,
        static_voters: bool = False,
        environment: Mapping[str, str] = NO_OVERRIDES,
    ) -> AsyncIterator[KraftCluster]:
        """A fresh quorum with a leader, its data below `directory`; stopped on exit.

        With `static_voters` it has kraft.version 0 and `controller.quorum.voters`.  `environment` is added to that of
        the nodes' processes.
        """
        await trio.Path(directory).mkdir(parents=True, exist_ok=True)
        ports = dict(zip(range(1, voters + 1), free_ports(voters), strict=True))
        cluster = cls(directory, ports, overrides, static_voters, environment)
        await cluster._format()
        async with stopping(cluster.children):
            for node in cluster.ports:
                await cluster.start(node)
            await cluster.leader()
            yield cluster

    async def start(self, node: int, overrides: Mapping[str, str] = NO_OVERRIDES) -> None:
        """Start one node, new or again, with further overrides of its own."""
        settings = [part for item in {**self.overrides, **overrides}.items() for part in ("--override", "=".join(item))]
        command = [KRAFT, "server", "start", "-c", str(self._properties(node)), *settings]
        output = self.directory / f"node-{node}.out"
        self.children[node] = await start_child(f"kraft node {node}", command, output, self.environment)

    def endpoint(self, node: int) -> Endpoint:
        return Endpoint("127.0.0.1", self.ports[node])

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    async def leader(self) -> int:
        """The node that answers as leader.  Raises BenchmarkError when there is none for LEADER_SECONDS."""
        return await poll_until("kraft leader", LEADER_SECONDS, self._ask_for_leader)

    async def all_caught_up(self) -> None:
        """Wait until every voter has the leader's log end.  Raises BenchmarkError after CATCH_UP_SECONDS."""
        await poll_until("kraft quorum in step", CATCH_UP_SECONDS, self._ask_whether_caught_up)

    async def high_watermark(self) -> int:
        """The leader's high watermark: the number of committed offsets, exclusive."""
        answer = await describe_quorum(self.endpoint(await self.leader()))
        return -1 if answer is None else answer.high_watermark

    async def format_observer(self, node: int, port: int, directory: Path) -> Path:
        """Format a node that is no voter, with its data in that directory; its configuration's path."""
        await trio.Path(directory).mkdir(parents=True, exist_ok=True)
        properties = directory.with_suffix(".properties")
        properties.write_text(
            f"node.id={node}\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={self.bootstrap_servers}\nmetadata.log.dir={directory}\n"
        )
        command = [KRAFT, "storage", "format", "-t", self.cluster_id, "-c", str(properties)]
        await run_to_end([*command, "--no-initial-controllers"], 60)
        return properties

    async def _ask_for_leader(self) -> int | None:
        for node, child in self.children.items():
            if child.running:
                answer = await describe_quorum(self.endpoint(node))
                if answer is not None and answer.leader_id == node:
                    return node
            elif child.process.returncode != -9:
                child.check_running()
        return None

    async def _ask_whether_caught_up(self) -> bool | None:
        leader = await self._ask_for_leader()
        if leader is None:
            return None
        answer = await describe_quorum(self.endpoint(leader))
        return True if answer is not None and voters_in_step(answer, len(self.ports)) else None

    def _properties(self, node: int) -> Path:
        return self.directory / f"node-{node}.properties"

    async def _format(self) -> None:
        """Write each node's configuration and format its directory with the same initial voters."""
        self.cluster_id = cluster_id = directory_id_to_text(uuid4())
        static = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items())
        voters = ",".join(
            f"{node}@127.0.0.1:{port}:{directory_id_to_text(uuid4())}" for node, port in self.ports.items()
        )
        flags = [] if self.static_voters else ["--initial-controllers", voters]
        async with trio.open_nursery() as nursery:
            for node, port in self.ports.items():
                properties = {
                    "node.id": node,
                    "process.roles": "controller",
                    "listeners": f"CONTROLLER://127.0.0.1:{port}",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.bootstrap.servers": self.bootstrap_servers,
                    "metadata.log.dir": self.directory / f"node-{node}",
                    **({"controller.quorum.voters": static} if self.static_voters else {}),
                }
                self._properties(node).write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
                command = [KRAFT, "storage", "format", "-t", cluster_id, "-c", str(self._properties(node))]
                nursery.start_soon(run_to_end, [*command, *flags], 60)
