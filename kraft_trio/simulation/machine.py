"""One host of the simulation: a disk, a clock, and at most one node's process."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
import trio

from kraft_trio.actors.application.state_machine_driver import OnCommit
from kraft_trio.application.serde import RawSerde
from kraft_trio.application.state_machine import StateSnapshots
from kraft_trio.config import NodeConfig
from kraft_trio.environment import Environment
from kraft_trio.errors import KraftError
from kraft_trio.node import Node
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.running import open_node
from kraft_trio.simulation.deterministic import current_time, process, run_queue
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.facts.device import Device
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.observing import ReplicaWatch
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.simulation.strict_reader import StrictReader
from kraft_trio.simulation.world import EPOCH_MS, World
from kraft_trio.storage.batches.batch import NewRecord, Record
from kraft_trio.storage.directory.directory import format_directory, partition_path
from kraft_trio.storage.disk.record_thread import InLoop

SYNC_LATENCY_S = (0.0001, 0.002)
"""The bounds of an fsync's duration, unless a fault changes it."""


@attrs.define(eq=False)
class Machine:
    """One machine per node id, made by the Cluster.  Its disk outlives its processes.

    It is a violation if a process ends by itself and no fault explains that.
    """

    world: World
    id: int
    disk: SimulatedDisk = attrs.field(init=False)
    device: Device = attrs.field(init=False)
    """What the facts know of its disks."""
    clock_drift: float = 0.0
    """How much faster the clock runs, as a share: with 0.05, each timeout is 5 % shorter.  Applies from the next start
    on."""
    wall_clock_offset_ms: int = 0
    kept_disk: SimulatedDisk | None = attrs.field(init=False, default=None)
    """A copy of the disk, which can be inserted later as a stale disk."""
    kept_key: ReplicaKey | None = attrs.field(init=False, default=None)
    """The incarnation that the copy is formatted as."""
    failure: BaseException | None = attrs.field(init=False, default=None)
    """The error with which the last process ended, if any."""
    _paused: bool = attrs.field(init=False, default=False)
    _watch: ReplicaWatch | None = attrs.field(init=False, default=None)
    _scope: trio.CancelScope | None = attrs.field(init=False, default=None)
    _stop: trio.Event = attrs.field(init=False, factory=trio.Event)
    _ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    _disk_random: random.Random = attrs.field(init=False)
    _starts: int = attrs.field(init=False, default=0)
    _formats: int = attrs.field(init=False, default=0)
    _excuse: str = attrs.field(init=False, default="")
    """Why the present process may end with an error; empty if no fault affects it."""
    _disk_was_touched: bool = attrs.field(init=False, default=False)
    """Whether the disk was ever replaced or damaged."""
    _guests: list[_Guest] = attrs.field(init=False, factory=list)
    _damaged_places: set[tuple[str, int]] = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._ended.set()
        config = self.world.config_of(self.id)
        path = partition_path(config.metadata_log_dir, config.topic_name)
        self.disk = self._new_disk()
        self.device = Device(self.disk, path, self._static_voters)

    # Looking

    @property
    def host(self) -> str:
        """The name of the machine in the network."""
        return f"node-{self.id}"

    @property
    def partition_path(self) -> str:
        """The directory of the log's files on the disk."""
        return self.device.partition_path

    @property
    def replica(self) -> Replica | None:
        """The incarnation that the disk is formatted as; None before it is formatted."""
        return self.world.facts.present.get(self.id)

    @property
    def node(self) -> Node | None:
        """The node, from when it has opened its directory until its process ends or is killed."""
        return self.world.running_nodes.get(self.id)

    @property
    def is_running(self) -> bool:
        """Whether there is a process, even if it is still opening its directory."""
        return self._scope is not None

    @property
    def has_ended(self) -> bool:
        """Whether every task of the last process has ended; true if there was no process."""
        return self._ended.is_set()

    @property
    def is_paused(self) -> bool:
        """Whether the process is frozen."""
        return self._paused

    @property
    def has_moved(self) -> bool:
        """Whether its process listens at an address that the node has left: the next one has the new address."""
        return self.node is not None and self.node.config.advertised_endpoints() != self.config.advertised_endpoints()

    @property
    def config(self) -> NodeConfig:
        """The configuration of the next process, with timeouts that follow the drift of the clock."""
        config = self.world.config_of(self.id)
        if not self.clock_drift:
            return config
        pace = 1.0 + self.clock_drift
        return attrs.evolve(
            config,
            election_timeout_ms=round(config.election_timeout_ms / pace),
            fetch_timeout_ms=round(config.fetch_timeout_ms / pace),
            election_backoff_max_ms=round(config.election_backoff_max_ms / pace),
            request_timeout_ms=round(config.request_timeout_ms / pace),
            retry_backoff_ms=round(config.retry_backoff_ms / pace),
        )

    def _static_voters(self) -> VoterSet:
        """The static voters of the process, which does not read its file again, or of the next process."""
        config = self.world.config_of(self.id) if self.node is None else self.node.config
        return config.static_voter_set()

    @property
    def has_bad_disk(self) -> bool:
        """Whether the disk's content has been damaged."""
        return self.device.is_damaged

    @property
    def is_whole(self) -> bool:
        """Whether the machine still has its first disk, undamaged."""
        return not self._disk_was_touched

    def wall_clock_ms(self) -> int:
        """What the machine's clock shows, with its drift and its jumps, in milliseconds since 1970."""
        now_s = current_time() - self.world.began_at_s
        return EPOCH_MS + self.wall_clock_offset_ms + round(now_s * 1000 * (1.0 + self.clock_drift))

    def _clock(self) -> Callable[[], float]:
        """A clock with the present drift, which stays what it is."""
        pace, world = 1.0 + self.clock_drift, self.world
        return lambda: world.now_s * pace

    # The disk

    def _new_disk(self) -> SimulatedDisk:
        self._disk_random = self.world.random(f"disk-{self.id}-{self._formats}")
        return SimulatedDisk(self._disk_random, sync_latency=self._usual_sync_latency, now_ms=self.wall_clock_ms)

    def _usual_sync_latency(self) -> float:
        return self._disk_random.uniform(*SYNC_LATENCY_S)

    def new_key(self) -> ReplicaKey:
        """The replica key for the next incarnation on this machine."""
        return self.world.new_key(self.id, self._formats)

    def format(self, key: ReplicaKey, *, with_voters: bool) -> Replica:
        """Format the disk as that incarnation, with or without the initial voters in its bootstrap checkpoint."""
        setup = self.world.setup
        config = self.world.config_of(self.id)
        self._formats += 1
        format_directory(
            self.disk,
            config.metadata_log_dir,
            cluster_id=self.world.cluster_id,
            node_id=self.id,
            directory_id=key.directory_id,
            topic_name=config.topic_name,
            voters=self.world.initial_voters if with_voters and setup.kraft_version else None,
            kraft_version=setup.kraft_version,
            timestamp_ms=self.wall_clock_ms(),
        )
        return self.world.facts.formatted(key, self.device)

    def replace_disk(self, disk: SimulatedDisk | None = None) -> None:
        """Insert another disk: a blank one, formatted with a new directory id, or the given one as it is.

        The process must have ended.  A given disk must belong to an earlier incarnation on this machine.
        """
        assert self.has_ended, f"node {self.id} is running: its disk cannot be replaced"
        self.world.trace.record("fault", node=self.id, cause="blank disk" if disk is None else "stale disk")
        self._disk_was_touched = True
        self._damaged_places.clear()
        self.disk = self._new_disk() if disk is None else disk
        self.device.insert(self.disk)
        if disk is None:
            self.format(self.new_key(), with_voters=False)
        elif self.kept_key is not None:
            self.world.facts.old_copies.add(self.kept_key)

    # The process

    async def start(self) -> Node | None:
        """Start a process, if none runs.  Returns its node, or None if the process has ended at once.

        First waits for the tasks of a killed process to end.
        """
        if not self.is_running:
            await self._ended.wait()
            while self._guests:
                await self._guests[0].has_left.wait()
        if not self.is_running:
            self._ended = trio.Event()
            await self.world.nursery.start(self._run)
        return self.node

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        process.set(self.id)
        setup = self.world.setup
        self._starts += 1
        self.device.damaged_under_process.clear()
        self.disk.is_attached = True
        self.disk.forget_failures()
        self._stop, self.failure = trio.Event(), None
        self._excuse = "its disk fails" if self.has_bad_disk or self.disk.has_faults else ""
        environment = Environment(
            has_virtual_time=True,
            network=self.world.network.seen_from(self.host),
            disk=self.disk,
            random=self.world.random(f"node-{self.id}-{self._starts}"),
            secret_bits=self.world.random(f"secrets-{self.id}-{self._starts}").getrandbits,
            wall_clock_ms=self.wall_clock_ms,
            clock_s=self._clock(),
            watch=self._opened,
            unexpected=self._request_failed,
            off_loop=InLoop(),
            applying=lambda on_commit, snapshots: _applying(self, on_commit, snapshots),
        )
        machine = self.world.new_state_machine(self.id)
        how, has_started = "killed", False
        self._scope = scope = trio.CancelScope()
        try:
            with scope:
                async with open_node(
                    self.config,
                    serde=setup.serde or RawSerde(),
                    environment=environment,
                    on_commit=setup.on_commit(self.id) if setup.on_commit else None,
                    state_machine=machine,  # type: ignore[arg-type]  # of either kind
                ) as node:
                    self.world.running_nodes[self.id], has_started = node, True
                    task_status.started()
                    await self._stop.wait()
                how = "stopped"
        except Exception as error:
            how = str(error)
            self._failed(error)
        finally:
            self._gone(how)
            self._ended.set()
            if not has_started:
                task_status.started()

    def _opened(self, node: Node) -> None:
        replica = self.world.facts.present[self.id] = self.world.facts.replica_of(node.key)
        self._watch = ReplicaWatch(self.world, replica, node)
        if self.id in self.world.setup.kafka_replicas:
            StrictReader(node.log, self._kafka_ended)

    def _kafka_ended(self, reason: str) -> None:
        self.world.bug(f"node {self.id} runs Apache Kafka and ended: {reason}", (self.id,))

    def _request_failed(self, error: Exception) -> None:
        self.world.bug(f"a request to node {self.id} met {type(error).__name__}: {error}", (self.id,), error)

    def _failed(self, error: Exception) -> None:
        if self._scope is not None:
            # Otherwise the process was killed, and the error is a consequence.
            self.failure = error
        is_excused = self._excuse or self.world.has_other_static_voters(self.id)
        if not (is_excused and _is_expected(error)):
            self.world.bug(f"node {self.id} ended with {type(error).__name__}: {error}", (self.id,), error)

    def _gone(self, how: str) -> None:
        """From the outside, the process has ended."""
        if self._scope is None:
            return
        self._scope = self._watch = None
        self.world.running_nodes.pop(self.id, None)
        for guest in self._guests:
            guest.scope.cancel()
        self.resume()
        replica = self.replica
        if replica is not None and replica.is_running:
            replica.beliefs = None
            self.world.trace.record("end", node=self.id, cause=self._excuse or how)
            self.world.checker.ended(replica)

    def applied(self, records: Sequence[Record]) -> None:
        """The node's state machine is about to receive these records."""
        if self._watch is not None:
            self._watch.applied(records)

    def loaded(self, end_offset: int) -> None:
        """The node's state machine is about to receive a snapshot that ends there."""
        if self._watch is not None:
            self._watch.loaded(end_offset)

    def restored(self, end_offset: int, digest: bytes) -> None:
        """The snapshot that ends there has given the state machine all values with this digest."""
        if self._watch is not None:
            self._watch.restored(end_offset, digest)

    @contextmanager
    def in_process(self) -> Iterator[None]:
        """Code in this block belongs to the present process, although another task runs it.

        It is cancelled when the process ends, and no new process begins before it has left.
        """
        guest, before = _Guest(), process.set(self.id)
        self._guests.append(guest)
        try:
            with guest.scope:
                yield
        finally:
            self._guests.remove(guest)
            guest.has_left.set()
            process.reset(before)

    async def stop(self) -> None:
        """Stop the process gracefully, like SIGTERM, and wait for its end.  A paused process is resumed first."""
        self.resume()
        self._stop.set()
        await self._ended.wait()

    def kill(self) -> None:
        """End the process like kill -9: peers see connections reset, and no written data is lost."""
        if self.is_running:
            self.disk.kill()
            self.world.network.disconnect_host(self.host, silent=False)
            self._end("killed")

    def crash(self, lose: Loss = "some") -> None:
        """Cut the machine's power: peers hear nothing, and unsynced data is lost.  Also works if no process runs."""
        self.disk.crash(lose=lose)
        self.world.network.disconnect_host(self.host, silent=True)
        if self.is_running:
            self._end(f"crashed, unsynced data lost: {lose}")

    def _end(self, excuse: str) -> None:
        scope = self._scope
        assert scope is not None
        self._excuse = excuse
        # Its tasks run until they are cancelled, and must not reach the disk.
        self.disk.is_attached = False
        self._gone("")
        scope.cancel()

    def pause(self) -> None:
        """Freeze the process while time passes, like SIGSTOP or a hypervisor."""
        if self.is_running and not self._paused:
            self._paused = True
            self.world.trace.record("fault", node=self.id, cause="paused")
            run_queue().pause(self.id)

    def resume(self) -> None:
        """Let a paused process continue."""
        if self._paused:
            self._paused = False
            self.world.trace.record("fault", node=self.id, cause="resumed")
            run_queue().resume(self.id)

    async def wait_until_ended(self) -> None:
        """Wait until every task of the process has ended; returns at once if there is no process."""
        await self._ended.wait()

    def excuse(self, reason: str) -> None:
        """A fault is about to happen that may end the process with an error."""
        self._excuse = reason

    def damage(self, path: str, position: int, reason: str) -> None:
        """Flip a bit of a file.  From now on, every process on this disk may end with an error.

        Does nothing at a place that was damaged before, because flipping the bit again would repair it.
        """
        self.excuse(reason)
        self._disk_was_touched = True
        if (path, position) not in self._damaged_places:
            self._damaged_places.add((path, position))
            self.disk.damage(path, position)
            self.device.note_damage(path)

    def end_faults(self) -> None:
        """End the machine's faults.  Damage to the disk's content stays."""
        self.resume()
        self.disk.clear_faults()
        self.disk.sync_latency = self._usual_sync_latency
        self.wall_clock_offset_ms = 0


@attrs.define(eq=False)
class _Guest:
    """A task that runs code of the process, but is not one of the node's own."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    has_left: trio.Event = attrs.field(factory=trio.Event)


def _applying(
    machine: Machine, on_commit: OnCommit | None, snapshots: StateSnapshots | None
) -> tuple[OnCommit, StateSnapshots | None]:
    """Pass what the node commits to the watch first, and then to the user's state machine."""

    async def commit(records: Sequence[Record]) -> None:
        machine.applied(records)
        if on_commit is not None:
            await on_commit(records)

    return commit, None if snapshots is None else _Loading(machine, snapshots)


@attrs.frozen
class _Loading:
    """Tells the watch of each load."""

    machine: Machine
    snapshots: StateSnapshots

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        self.machine.loaded(end_offset)
        await self.snapshots.load(end_offset, records)
        if isinstance(self.snapshots, RememberedValues):
            self.machine.restored(end_offset, self.snapshots.digest)

    def save(self) -> Iterable[NewRecord | bytes]:
        return self.snapshots.save()


def _is_expected(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_expected(member) for member in error.exceptions)
    return isinstance(error, KraftError)
