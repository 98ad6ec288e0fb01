"""Whole nodes in one process, over a memory network and simulated disks: what the actors' tests script."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from uuid import UUID

import attrs
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.actors.state_machine_driver import OnCommit
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.environment import Environment
from kraft_trio.errors import KraftError
from kraft_trio.messages import ElectionMessage, Stamp
from kraft_trio.node import Node, open_node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batch import decode_records, peek_header
from kraft_trio.storage.directory import format_directory, partition_path
from kraft_trio.storage.log import Log, LogConfig
from kraft_trio.storage.simulated_disk import SimulatedDisk
from tests.support.invariants import Invariants
from tests.support.memory_network import MemoryNetwork

CLUSTER_ID = "test-cluster-000000000"
LISTENER = "CONTROLLER"


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint(f"node-{node_id}", 9093)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=1000 + node_id))


def voters_of(node_ids: Iterable[int]) -> VoterSet:
    return VoterSet([Voter(key_of(id), Endpoints({LISTENER: endpoint_of(id)}), VersionRange(0, 1)) for id in node_ids])


def values_of(batch: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values of a batch; none of a control batch."""
    header = peek_header(batch)
    return [] if header.is_control else [(r.offset, r.value or b"") for r in decode_records(batch, 0, header)]


@attrs.define
class Cluster:
    """Voters and observers by id; each has a disk that outlives its node."""

    voter_ids: tuple[int, ...] = (1, 2, 3)
    settings: dict[str, str] = attrs.field(factory=dict)
    seed: int = 1
    are_static: bool = False
    """Whether the voters are named by `controller.quorum.voters`, at kraft.version 0, instead of by the checkpoint."""
    network: MemoryNetwork = attrs.field(factory=MemoryNetwork)
    disks: dict[int, SimulatedDisk] = attrs.field(factory=dict)
    nodes: dict[int, Node] = attrs.field(factory=dict)
    scopes: dict[int, trio.CancelScope] = attrs.field(factory=dict)
    told: dict[int, list[ElectionMessage]] = attrs.field(factory=dict)
    contexts: dict[int, EpochContext] = attrs.field(factory=dict)
    ended: dict[int, trio.Event] = attrs.field(factory=dict)
    """Set when the node has ended, for whatever reason."""
    failures: dict[int, KraftError] = attrs.field(factory=dict)
    """What the nodes in `may_fail` have ended with."""
    may_fail: set[int] = attrs.field(factory=set)
    stops: dict[int, trio.Event] = attrs.field(factory=dict)
    on_commit: dict[int, OnCommit] = attrs.field(factory=dict)
    invariants: Invariants = attrs.field(factory=Invariants)
    nursery: trio.Nursery | None = None

    def config(self, node_id: int) -> NodeConfig:
        is_broker = self.are_static and node_id not in self.voter_ids
        if self.are_static:
            voters = {"controller.quorum.voters": ",".join(f"{id}@{endpoint_of(id)}" for id in self.voter_ids)}
        else:
            voters = {"controller.quorum.bootstrap.servers": ",".join(str(endpoint_of(id)) for id in self.voter_ids)}
        return parse_config(
            {
                "node.id": str(node_id),
                "process.roles": "broker" if is_broker else "controller",
                "listeners": f"{LISTENER}://{endpoint_of(node_id)}",
                "controller.listener.names": LISTENER,
                **voters,
                "metadata.log.dir": "/data",
                **self.settings,
            }
        ).config

    def format(self, node_id: int, *, directory_id: UUID | None = None) -> SimulatedDisk:
        """A blank disk for that node; a voter's holds the bootstrap checkpoint, unless it is given a directory id."""
        names_voters = node_id in self.voter_ids and directory_id is None and not self.are_static
        disk = SimulatedDisk(random.Random(self.seed * 1000 + node_id))
        config = self.config(node_id)
        format_directory(
            disk,
            config.metadata_log_dir,
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            directory_id=directory_id or key_of(node_id).directory_id,
            topic_name=config.topic_name,
            voters=voters_of(self.voter_ids) if names_voters else None,
            kraft_version=0 if self.are_static else 1,
            timestamp_ms=0,
        )
        self.disks[node_id] = disk
        return disk

    @asynccontextmanager
    async def running(self, *node_ids: int) -> AsyncIterator[Cluster]:
        """Run these nodes, the voters by default, until the block is left; they are then killed, not shut down.

        TooSlowError after ten minutes of virtual time.
        """
        with trio.fail_after(600):
            async with self._run_all(*node_ids):
                yield self

    @asynccontextmanager
    async def _run_all(self, *node_ids: int) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            for node_id in node_ids or self.voter_ids:
                await self.start(nursery, node_id)
            yield
            nursery.cancel_scope.cancel()

    async def start(self, nursery: trio.Nursery, node_id: int) -> Node:
        if node_id not in self.disks:
            self.format(node_id)
        return await nursery.start(self._run, node_id)

    async def restart(self, node_id: int) -> Node:
        """Start a node again, or a new one, on the disk it has; waits for one that is still ending."""
        assert self.nursery is not None, "the cluster is not running"
        await self.wait_until_ended(node_id)
        return await self.start(self.nursery, node_id)

    async def wait_until_ended(self, node_id: int) -> None:
        if node_id in self.ended:
            await self.ended[node_id].wait()

    async def _run(self, node_id: int, *, task_status: trio.TaskStatus[Node]) -> None:
        environment = Environment(
            network=self.network.seen_from(endpoint_of(node_id)),
            disk=self.disks[node_id],
            random=random.Random(self.seed * 100 + node_id),
            wall_clock_ms=lambda: 1_700_000_000_000 + round(trio.current_time() * 1000),
        )
        ended = self.ended[node_id] = trio.Event()
        stop = self.stops[node_id] = trio.Event()
        try:
            with trio.CancelScope() as scope:
                async with open_node(
                    self.config(node_id), environment=environment, on_commit=self.on_commit.get(node_id)
                ) as node:
                    self.nodes[node_id], self.scopes[node_id] = node, scope
                    self.invariants.attach(node, self.disks[node_id])
                    task_status.started(node)
                    await stop.wait()
        except KraftError as error:
            if node_id not in self.may_fail:
                raise
            self.failures[node_id] = error
        finally:
            self.nodes.pop(node_id, None)
            self.may_fail.discard(node_id)
            ended.set()

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

    # Faults

    def kill(self, node_id: int) -> None:
        """End the process, as kill -9 does: nothing is said to anyone, and nothing of what was written is lost."""
        self.disks[node_id].kill()
        self._end(node_id)

    async def crash(self, node_id: int, *, lose_everything_unsynced: bool = True) -> None:
        """Take the machine's power away: unsynced data is lost, all of it or a random part."""
        self.disks[node_id].crash(lose_everything_unsynced=lose_everything_unsynced)
        self._end(node_id)
        await self.ended[node_id].wait()

    def fail_next_sync(self, node_id: int) -> None:
        """The next fsync fails with EIO, loses what it should have made durable, and the ones after it "succeed"."""
        disk = self.disks[node_id]
        self.may_fail.add(node_id)

        def fail_sync(operation: str, path: str) -> None:
            if operation == "sync":
                disk.hook = None
                raise OSError(errno.EIO, "injected", path)

        disk.hook = fail_sync

    def _end(self, node_id: int) -> None:
        self.may_fail.add(node_id)
        self.scopes[node_id].cancel()
        self.nodes.pop(node_id, None)

    async def stop(self, node_id: int) -> None:
        """Stop the node gracefully, as SIGTERM does."""
        self.stops[node_id].set()
        await self.ended[node_id].wait()

    def partition(self, *groups: Iterable[int], silent: bool = False) -> None:
        """Let nodes reach only nodes of their own group; `silent` loses no connection and refuses none, it stalls."""
        hosts = [{endpoint_of(id).host for id in group} for group in groups]

        def is_cut(source: Endpoint, target: Endpoint) -> bool:
            are_named = all(any(end.host in group for group in hosts) for end in (source, target))
            return are_named and not any(source.host in group and target.host in group for group in hosts)

        self.network.cut(is_cut, silent=silent)

    def heal(self) -> None:
        """End every partition."""
        self.network.cut(lambda _source, _target: False)

    # Looking

    def leader(self) -> Node | None:
        """The node that leads the highest epoch, if any does."""
        leaders = [node for node in self.nodes.values() if isinstance(node.view.role, Leader)]
        return max(leaders, key=lambda node: node.view.epoch, default=None)

    async def wait_for_leader(self) -> Node:
        """A leader whose high watermark is known: it has committed in its epoch."""
        while (leader := self.leader()) is None or leader.high_watermark is None:  # noqa: ASYNC110
            await trio.sleep(0.01)
        return leader

    async def wait_until_other_leads(self, node: Node) -> Node:
        """A leader whose high watermark is known and that is not this incarnation of that node."""
        while (leader := await self.wait_for_leader()) is node:  # noqa: ASYNC110
            await trio.sleep(0.01)
        return leader

    def others(self, node: Node) -> list[Node]:
        """The running voters but this one."""
        return [other for id, other in sorted(self.nodes.items()) if other is not node and id in self.voter_ids]

    async def wait_until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait in virtual time, looking every few milliseconds; TooSlowError after `within_s`."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.005)

    async def wait_until_alike(self, *node_ids: int, within_s: float = 60.0) -> None:
        """Wait until all of these nodes' logs, everybody's by default, end at one and the same high watermark."""

        def alike() -> bool:
            logs = [node.log for id, node in self.nodes.items() if not node_ids or id in node_ids]
            ends = {(log.end, log.synced_end_offset, log.high_watermark) for log in logs}
            return len(ends) == 1 and all(log.high_watermark == log.end_offset for log in logs)

        await self.wait_until(alike, within_s=within_s)

    def values(self, node: Node) -> list[bytes]:
        """The values in that node's log, uncommitted ones included."""
        batches = node.log.iter_batches(0, node.log.end_offset)
        return [value for _, batch in batches for _, value in values_of(batch)]

    def log_bytes(self, node: Node) -> bytes:
        """The whole log, as it is on disk."""
        return b"".join(batch for _, batch in node.log.iter_batches(0, node.log.end_offset))
