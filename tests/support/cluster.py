"""Whole nodes in one process, over a memory network and simulated disks: what the actors' tests script."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from uuid import UUID

import attrs
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.environment import Environment
from kraft_trio.messages import ElectionMessage, Stamp
from kraft_trio.node import Node, open_node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.directory import format_directory, partition_path
from kraft_trio.storage.log import Log, LogConfig
from kraft_trio.storage.simulated_disk import SimulatedDisk
from tests.support.memory_network import MemoryNetwork

CLUSTER_ID = "test-cluster-000000000"
LISTENER = "CONTROLLER"


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint(f"node-{node_id}", 9093)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=1000 + node_id))


def voters_of(node_ids: Iterable[int]) -> VoterSet:
    return VoterSet([Voter(key_of(id), Endpoints({LISTENER: endpoint_of(id)}), VersionRange(0, 1)) for id in node_ids])


@attrs.define
class Cluster:
    """Voters and observers by id; each has a disk that outlives its node."""

    voter_ids: tuple[int, ...] = (1, 2, 3)
    settings: dict[str, str] = attrs.field(factory=dict)
    seed: int = 1
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    disks: dict[int, SimulatedDisk] = attrs.field(factory=dict)
    nodes: dict[int, Node] = attrs.field(factory=dict)
    scopes: dict[int, trio.CancelScope] = attrs.field(factory=dict)
    told: dict[int, list[ElectionMessage]] = attrs.field(factory=dict)
    contexts: dict[int, EpochContext] = attrs.field(factory=dict)

    def config(self, node_id: int) -> NodeConfig:
        servers = ",".join(str(endpoint_of(id)) for id in self.voter_ids)
        return parse_config(
            {
                "node.id": str(node_id),
                "process.roles": "controller",
                "listeners": f"{LISTENER}://{endpoint_of(node_id)}",
                "controller.listener.names": LISTENER,
                "controller.quorum.bootstrap.servers": servers,
                "metadata.log.dir": "/data",
                **self.settings,
            }
        ).config

    def format(self, node_id: int) -> SimulatedDisk:
        """A blank disk for that node; a voter's holds the bootstrap checkpoint."""
        disk = SimulatedDisk(random.Random(self.seed * 1000 + node_id))
        config = self.config(node_id)
        format_directory(
            disk,
            config.metadata_log_dir,
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            directory_id=key_of(node_id).directory_id,
            topic_name=config.topic_name,
            voters=voters_of(self.voter_ids) if node_id in self.voter_ids else None,
            kraft_version=1,
            timestamp_ms=0,
        )
        self.disks[node_id] = disk
        return disk

    @asynccontextmanager
    async def running(self, *node_ids: int) -> AsyncIterator[Cluster]:
        """Run these nodes, the voters by default, until the block is left; they are then killed, not shut down."""
        async with trio.open_nursery() as nursery:
            for node_id in node_ids or self.voter_ids:
                await self.start(nursery, node_id)
            yield self
            nursery.cancel_scope.cancel()

    async def start(self, nursery: trio.Nursery, node_id: int) -> Node:
        if node_id not in self.disks:
            self.format(node_id)
        return await nursery.start(self._run, node_id)

    async def _run(self, node_id: int, *, task_status: trio.TaskStatus[Node]) -> None:
        environment = Environment(
            network=self.network.seen_from(endpoint_of(node_id)),
            disk=self.disks[node_id],
            random=random.Random(self.seed * 100 + node_id),
            wall_clock_ms=lambda: 1_700_000_000_000 + round(trio.current_time() * 1000),
        )
        with trio.CancelScope() as scope:
            async with open_node(self.config(node_id), environment=environment) as node:
                self.nodes[node_id], self.scopes[node_id] = node, scope
                task_status.started(node)
                await trio.sleep_forever()

    def epoch_context(self, node_id: int, stamp: Stamp) -> EpochContext:
        """What one task of an epoch needs, over that node's own log, for tests of a single actor.

        What the actor tells Election is in `told`.
        """
        config = self.config(node_id)
        log = Log.open(
            self.format(node_id),
            partition_path(config.metadata_log_dir, config.topic_name),
            topic_id=config.topic_id,
            static_voters=config.static_voter_set(),
            config=LogConfig(),
            now_ms=lambda: 0,
        )
        network = self.network.seen_from(endpoint_of(node_id))
        told: list[ElectionMessage] = []

        async def tell_election(message: ElectionMessage) -> None:
            told.append(message)

        self.told[node_id] = told
        self.contexts[node_id] = EpochContext(
            stamp=stamp,
            key=key_of(node_id),
            cluster_id=CLUSTER_ID,
            config=config,
            log=log,
            client=NetworkClient(network, "test", random.Random(0), 1024 * 1024),
            random=random.Random(0),
            wall_clock_ms=lambda: 0,
            tell_election=tell_election,
        )
        return self.contexts[node_id]

    def kill(self, node_id: int) -> None:
        self.scopes[node_id].cancel()
        del self.nodes[node_id]

    def leader(self) -> Node | None:
        """The node that leads the highest epoch, if any does."""
        leaders = [node for node in self.nodes.values() if isinstance(node.view.role, Leader)]
        return max(leaders, key=lambda node: node.view.epoch, default=None)

    async def wait_for_leader(self) -> Node:
        """A leader whose high watermark is known: it has committed in its epoch."""
        while (leader := self.leader()) is None or leader.high_watermark is None:  # noqa: ASYNC110
            await trio.sleep(0.01)
        return leader
