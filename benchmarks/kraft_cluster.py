"""Our quorum under measurement: the harness's processes behind an async interface."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import attrs
import trio

from benchmarks.children import STOP_SECONDS, BenchmarkError
from harness.node import NodeProcess, stop_all
from harness.quorum import Quorum
from kraft_trio.protocol.types import Endpoint

CATCH_UP_SECONDS = 120.0

NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})

T = TypeVar("T")


@attrs.define
class KraftCluster:
    """A running quorum with default timeouts; made by `started`."""

    quorum: Quorum
    overrides: Mapping[str, str]
    environment: Mapping[str, str] = NO_OVERRIDES
    by_node: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    """Further overrides of single nodes."""
    python: str | None = None
    """The interpreter that runs the nodes, in an environment with what they need; by default this process's own."""

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
        by_node: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
        python: str | None = None,
        client_tls: ssl.SSLContext | None = None,
        data: Mapping[int, Path] = MappingProxyType({}),
    ) -> AsyncIterator[KraftCluster]:
        """Start a new quorum with its data below `directory`, wait for a leader, and stop the quorum on exit.

        `static_voters` means kraft.version 0 and `controller.quorum.voters`.  `environment` is added to that of the
        nodes' processes.  `client_tls` is for asking nodes whose overrides give them TLS.  `data` has new directories
        for the data of single nodes.
        """
        await trio.Path(directory).mkdir(parents=True, exist_ok=True)
        for node_id, elsewhere in data.items():
            await trio.Path(elsewhere).mkdir(mode=0o700)
            await trio.Path(directory / f"node-{node_id}").symlink_to(elsewhere)
        quorum = await trio.to_thread.run_sync(
            lambda: Quorum(directory, voters, timeouts=NO_OVERRIDES, static_voters=static_voters)
        )
        quorum.client_tls = client_tls
        cluster = cls(quorum, overrides, environment, by_node, python)
        try:
            for node in quorum.nodes:
                await cluster.start(node)
            await cluster.leader()
            yield cluster
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(stop_all, quorum.nodes.values(), STOP_SECONDS)

    @property
    def node_ids(self) -> list[int]:
        return list(self.quorum.nodes)

    @property
    def pids(self) -> dict[int, int]:
        """The process ids by node id."""
        return {node.id: node.pid for node in self.quorum.nodes.values()}

    async def start(self, node: int, overrides: Mapping[str, str] = NO_OVERRIDES) -> None:
        """Start a node, for the first time or again, with further overrides of its own."""
        self.start_process(self.quorum.nodes[node], overrides)

    def start_process(self, node: NodeProcess, overrides: Mapping[str, str] = NO_OVERRIDES) -> None:
        settings = {**self.overrides, **self.by_node.get(node.id, {}), **overrides}
        node.start(
            [f"{key}={value}" for key, value in settings.items()],
            prefix=[self.python] if self.python else [],
            environment=self.environment,
        )

    async def kill(self, node: int) -> None:
        """Send SIGKILL and wait for the end."""
        await trio.to_thread.run_sync(self.quorum.nodes[node].kill)

    async def stop(self, node: int) -> None:
        """Send SIGTERM, and SIGKILL after STOP_SECONDS, and wait for the end."""
        await trio.to_thread.run_sync(stop_all, [self.quorum.nodes[node]], STOP_SECONDS)

    def endpoint(self, node: int) -> Endpoint:
        return self.quorum.nodes[node].endpoint

    @property
    def bootstrap_servers(self) -> str:
        return self.quorum.bootstrap_servers

    async def leader(self) -> int:
        """Return the leader's id.  Raises BenchmarkError if there is no leader for too long."""
        return (await self._wait(self.quorum.leader)).id

    async def all_caught_up(self) -> None:
        """Wait until all nodes have the leader's log end.  Raises BenchmarkError after CATCH_UP_SECONDS."""
        await self._wait(lambda: self.quorum.wait_until_caught_up(seconds=CATCH_UP_SECONDS))

    async def high_watermark(self) -> int:
        """Return the leader's high watermark (exclusive)."""
        _, answer = await self._wait(self.quorum.described_by_leader)
        return answer.high_watermark

    async def make_observer(self, node: int, directory: Path) -> NodeProcess:
        """Format an observer with its data in `directory`; the caller starts and stops it."""
        return await trio.to_thread.run_sync(self.quorum.make_observer, node, directory)

    async def _wait(self, wait: Callable[[], T]) -> T:
        """Run a wait of the harness in a thread.  Raises BenchmarkError, with the ends of the nodes' logs."""
        try:
            return await trio.to_thread.run_sync(wait)
        except AssertionError as error:
            logs = "\n".join(f"{title}:\n{log}" for title, log in self.quorum.logs_for_report(2000))
            raise BenchmarkError(f"{error}\n{logs}") from error
