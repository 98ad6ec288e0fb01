"""A node's actors, and the nursery tree that runs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import trio

from kraft_trio.actors.application.appender import Appender
from kraft_trio.actors.application.command_admission import CommandAdmission
from kraft_trio.actors.application.command_executor import CommandExecutor
from kraft_trio.actors.application.read_index_lookup import ReadIndexLookup
from kraft_trio.actors.application.record_checker import RecordChecker
from kraft_trio.actors.application.record_decoder import RecordDecoder
from kraft_trio.actors.application.state_machine_driver import OnCommit, StateMachineDriver
from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.context.fetch_problem import FetchProblem
from kraft_trio.actors.context.kafka_replicas import KafkaReplicas
from kraft_trio.actors.context.lost_records import LostRecords
from kraft_trio.actors.context.other_disks import OtherDisks
from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.context.restored_voters import RestoredVoters
from kraft_trio.actors.election.election import Election
from kraft_trio.actors.kafka.controllers_guard import ControllersGuard
from kraft_trio.actors.membership.internal_listener import InternalListener, OwnRemoval
from kraft_trio.actors.membership.transfer_asker import TransferAsker
from kraft_trio.actors.membership.voter_gossip import VoterGossip
from kraft_trio.actors.network.network_server import NetworkServer
from kraft_trio.actors.network.request_router import RequestRouter
from kraft_trio.actors.network.voter_change_requests import FORWARDER_CLIENT_ID, REPLICA_CLIENT_ID
from kraft_trio.actors.peers.bootstrap_servers import BootstrapServers
from kraft_trio.actors.peers.kafka_controllers import KafkaControllers
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.peers.own_address import OwnAddress
from kraft_trio.actors.peers.voter_addresses import VoterAddresses
from kraft_trio.actors.snapshots.log_cleaner import LogCleaner
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.actors.waiting.memory_budget import MemoryBudget
from kraft_trio.application.machine_adapter import MachineAdapter
from kraft_trio.application.machine_fault import MachineFault
from kraft_trio.application.state_machine import StateSnapshots
from kraft_trio.config import NodeConfig
from kraft_trio.environment import Environment
from kraft_trio.errors import NodeClosedError, StorageFailure, leaves
from kraft_trio.limits.refusals import Refusals
from kraft_trio.messages import QuorumView
from kraft_trio.metrics.load import NodeLoad
from kraft_trio.metrics.metrics_file import MetricsFile
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.metrics.text_format import Sample
from kraft_trio.protocol.read_barrier import ReadIndex
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.protocol.waits import reconnect_backoff_max_ms
from kraft_trio.security.access_control import AccessControl
from kraft_trio.security.secured_network import secured
from kraft_trio.security.watched_files import WatchedFiles, look_at_all
from kraft_trio.storage.directory.boot_counter import BootCounter
from kraft_trio.storage.directory.directory import LockedDirectory
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.log.log import Log

LOOK_EVERY_S: Final = 1.0

R = TypeVar("R")


class NodeTree(Generic[R]):
    """Makes the actors of a node over its log, and runs them until one fails or it is cancelled.  `Node` asks them.

    R is the type of the state machine's results.
    """

    def __init__(
        self,
        config: NodeConfig,
        environment: Environment,
        directory: LockedDirectory,
        reserve: DiskReserve,
        log: Log,
        *,
        on_commit: OnCommit | None,
        snapshots: StateSnapshots | None,
        machine: MachineAdapter[Any, R] | None,
    ) -> None:
        """`machine` is what gives `on_commit` and `snapshots` their values, if it is a StateMachine."""
        self.config = config
        self.environment = environment
        self.cluster_id = directory.meta_properties.cluster_id
        self.key = ReplicaKey(config.node_id, directory.meta_properties.directory_id)
        self.log = log
        self.machine = machine
        self.observer_versions: dict[ReplicaKey, VersionRange] = {}
        """What the application says that observers support."""
        self.is_closed = False
        """Whether the tree has ended."""
        self.tell_status: Callable[[], Awaitable[str]] | None = None
        """Makes the status, as JSON, that ReplicaSnapshots asks for."""
        self._reserve = reserve
        self._fault: BaseException | None = None
        self._metrics: NodeMetrics | None = None
        network, self.credentials = secured(environment.network, config)
        self.http_files: tuple[WatchedFiles, ...] = ()
        """Those of the HTTP listener's users."""
        self.network = network
        """That of the environment, secured as the configuration asks."""
        client_id = f"{REPLICA_CLIENT_ID}{config.node_id}"
        backoff_max_ms = reconnect_backoff_max_ms(config.fetch_timeout_ms, config.election_timeout_ms)
        self.controllers = KafkaControllers(config.topic_name)
        # Its own appends must not queue behind what clients have this node pass on.
        self.client, self.forwarder, self._own_forwarder, self._reader = (
            NetworkClient(
                network,
                name,
                environment.random,
                config.max_request_bytes,
                backoff_max_ms,
                self.controllers.negotiated,
                self._shown_to_peers,
            )
            for name in (client_id, FORWARDER_CLIENT_ID, FORWARDER_CLIENT_ID, client_id)
        )
        self._snapshot_fetch = SnapshotFetch(environment.disk, log)
        removal = RemovalMarker(environment.disk, log.directory, self.key)
        self._failures = RequestFailures(environment.unexpected)
        self.refusals = Refusals()
        self.fetch_problem = FetchProblem()
        self.restored = RestoredVoters(environment.wall_clock_ms)
        self.lost_records = LostRecords()
        self.own_address = OwnAddress(network, environment.network, config)
        self.other_disks = OtherDisks()
        self._access = AccessControl(config, FORWARDER_CLIENT_ID, self.refusals) if config.authorizer else None
        context = NodeContext(
            key=self.key,
            cluster_id=self.cluster_id,
            config=config,
            log=log,
            snapshot_fetch=self._snapshot_fetch,
            removal=removal,
            client=self.client,
            addresses=(
                VoterAddresses(self.client, config.controller_listener_name)
                if self._access is None
                else VoterAddresses(self.client, config.controller_listener_name, self._access.refusal_of_server)
            ),
            bootstrap=BootstrapServers(network, config),
            random=environment.random,
            secret_bits=environment.secret_bits,
            wall_clock_ms=environment.wall_clock_ms,
            clock_s=environment.clock_s,
            failures=self._failures,
            refusals=self.refusals,
            kafka=KafkaReplicas(config),
            controllers=self.controllers,
            fetch_problem=self.fetch_problem,
            restored=self.restored,
            lost_records=self.lost_records,
            own_address=self.own_address,
            other_disks=self.other_disks,
        )
        quorum_state_path = directory.quorum_state_path(config.topic_name)
        self.election = Election(
            context, QuorumStateFile(environment.disk, quorum_state_path, reserve), self.observer_versions
        )
        self.transfers = TransferAsker(context, self.forwarder, self.election.view, lambda: self.is_closed)
        self._guard = None if config.witness else ControllersGuard(context)
        self._gossip: VoterGossip | None = None
        if config.voter_gossip:
            boots = BootCounter(environment.disk, directory.path)
            self._gossip = VoterGossip(context, self.election.view, boots)
        self._internal_listener = InternalListener(
            log,
            self.election.tell,
            (self.client, self.forwarder, self._own_forwarder, self._reader),
            OwnRemoval(log, self.key, removal),
        )
        self.appender = Appender(
            config=config,
            client=self._own_forwarder,
            view=self.election.view,
            random_source=environment.random,
            wall_clock_ms=environment.wall_clock_ms,
        )
        self.read_indexes = ReadIndexLookup(context, self._reader, self.election.view, lambda: self.is_closed)
        self._cleaner = LogCleaner(log, config)
        self.taker: SnapshotTaker | None = None
        if snapshots is not None:
            self.taker = SnapshotTaker(environment.disk, log, snapshots, config, self._cleaner)
        self.record_decoder = RecordDecoder(environment.off_loop, config.max_decompressed_bytes)
        router = RequestRouter(
            context,
            self.election.view,
            self.election.tell,
            self.forwarder,
            None if self.taker is None else self.taker.take,
            self._status_text,
            RecordChecker(environment.off_loop, config.max_message_bytes, config.max_decompressed_bytes),
            self._gossip,
            self._access,
            None if machine is None else CommandAdmission(self.record_decoder, machine.refusal_of),
        )
        self._memory = MemoryBudget(config.queued_max_request_bytes, config.max_connection_bytes)
        self.server = NetworkServer(network, config, router, self._memory, self._failures, self.refusals)
        self._machine = machine
        self.driver: StateMachineDriver | None = None
        if on_commit is not None:
            self.driver = StateMachineDriver(
                log,
                on_commit,
                self.record_decoder,
                snapshots=snapshots,
                taker=self.taker,
                takes_long=None if machine is None else machine.takes_long,
            )
        self.executor: CommandExecutor[R] | None = None
        if machine is not None and self.driver is not None:
            self.executor = CommandExecutor(
                self.appender, self.driver, machine, environment.wall_clock_ms, environment.secret_bits
            )

    def machine_complaint(self) -> str | None:
        """What the state machine says is wrong with its state."""
        return None if self._machine is None else self._machine.complaint

    def _shown_to_peers(self) -> object:
        """The context with this node's newest certificate; None if it shows none."""
        connecting = None if self.credentials is None else self.credentials.connecting
        return None if connecting is None else connecting.current()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the nursery tree.  A fault in any child ends the node; the next start recovers from disk."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.server.run)
                await nursery.start(self.client.run)
                await nursery.start(self.forwarder.run)
                await nursery.start(self._own_forwarder.run)
                await nursery.start(self._reader.run)
                nursery.start_soon(self._internal_listener.run)
                if not self.own_address.may_be_listed:
                    nursery.start_soon(self.own_address.run)
                if self.security_files:
                    nursery.start_soon(self._look_at_security_files)
                if self.driver is not None:
                    nursery.start_soon(self.driver.run)
                if self.machine is not None and self.machine.on_leader_change is not None:
                    nursery.start_soon(self._tell_who_leads, self.machine.on_leader_change)
                if self.taker is not None:
                    nursery.start_soon(self.taker.run)
                if self._guard is not None:
                    nursery.start_soon(self._guard.run)
                nursery.start_soon(self._cleaner.run)
                await nursery.start(self._snapshot_fetch.run)
                nursery.start_soon(self.election.run)
                nursery.start_soon(self.appender.run)
                nursery.start_soon(self.read_indexes.run)
                if self._gossip is not None:
                    nursery.start_soon(self._gossip.run)
                nursery.start_soon(self._end_with_the_disk)
                if self.config.metrics_interval_ms > 0 or self.config.http_listener:
                    nursery.start_soon(self.metrics.run)
                if self.config.metrics_interval_ms > 0:
                    nursery.start_soon(self._metrics_file().run)
                task_status.started()
        except BaseException as error:
            self._fault = error
            raise
        finally:
            self.is_closed = True
            self.election.view.look_again()
            self.log.high_watermark_moved.unpark_all()
            await self._snapshot_fetch.abandon()

    @property
    def security_files(self) -> tuple[WatchedFiles, ...]:
        """The files with certificates, rules and users that are reloaded while the node runs."""
        credentials = () if self.credentials is None else self.credentials.all
        access = () if self._access is None else (self._access.files,)
        return (*(one.files for one in credentials), *access, *self.server.security_files, *self.http_files)

    async def _tell_who_leads(self, on_leader_change: Callable[[QuorumView], object]) -> None:
        """Call the state machine with the present view, and again when the epoch or its leader changes."""
        told: tuple[int, int | None] | None = None

        def is_news(view: QuorumView) -> bool:
            return (view.epoch, view.leader_id) != told

        while True:
            view = await self.election.view.wait_for(is_news)
            told = (view.epoch, view.leader_id)
            try:
                on_leader_change(view)
            except BaseException as error:
                raise MachineFault(error) from error

    async def _look_at_security_files(self) -> None:
        """Reload certificates and access rules that have changed on disk."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            look_at_all(self.security_files)

    async def _end_with_the_disk(self) -> None:
        """End the node when its disk has failed.  When the disk is full, hand over first."""
        failure = await self._reserve.wait_for_the_end()
        if self.log.poisoned is None:
            await self.election.shut_down()
        raise failure

    async def read_barrier(self) -> ReadIndex:
        """See `Node.read_barrier`."""
        read_index = await self.read_indexes.read_index()
        if self.driver is not None:
            await self.driver.wait_until_applied(read_index.offset - 1)
            return read_index
        while self.log.high_watermark is None or self.log.high_watermark < read_index.offset:
            if self.is_closed:
                raise NodeClosedError("read_barrier: the node has stopped")
            await self.log.high_watermark_moved.park()
        return read_index

    @property
    def faults(self) -> list[BaseException]:
        """The errors with which the node has ended or is about to end."""
        faults = [] if self._fault is None else list(leaves(self._fault))
        faults = [fault for fault in faults if not isinstance(fault, trio.Cancelled)]
        return faults or ([] if self.disk_failure is None else [self.disk_failure])

    @property
    def disk_failure(self) -> StorageFailure | None:
        """The error with which the node is about to end because its disk is full or has failed; else None."""
        return self._reserve.failure

    @property
    def metrics(self) -> NodeMetrics:
        """Made at the first access, because some of them count from then."""
        if self._metrics is None:
            self._metrics = NodeMetrics(
                key=self.key,
                config=self.config,
                log=self.log,
                view=self.election.view,
                progress=lambda: self.election.progress,
                failures=self._failures,
                restored=self.restored,
                load=self._load,
                has_registered=lambda: self.controllers.has_registered,
                has_stopped_machine=lambda: self.driver is not None and self.driver.failure is not None,
                snapshot_fetch=self._snapshot_fetch,
                snapshot_taker=self.taker,
                wall_clock_ms=self.environment.wall_clock_ms,
                certificates=self._certificate_samples,
                has_virtual_time=self.environment.has_virtual_time,
            )
        return self._metrics

    def _certificate_samples(self) -> list[Sample]:
        """One sample of each certificate.  A listener's and the peers' connections share theirs."""
        found = {
            (one.name, certificate): Sample(
                {
                    "listener": one.name,
                    "store": certificate.store,
                    "subject": certificate.subject,
                    "serial": certificate.serial,
                },
                certificate.expires_s,
            )
            for one in (() if self.credentials is None else self.credentials.all)
            for certificate in one.certificates
        }
        return list(found.values())

    async def _status_text(self) -> str | None:
        return None if self.tell_status is None else await self.tell_status()

    def _load(self) -> NodeLoad:
        memory = self._memory
        return NodeLoad(self.refusals, self.server.connections, memory.taken, memory.waits)

    def _metrics_file(self) -> MetricsFile:
        config = self.config
        return MetricsFile(self.metrics, self.environment.disk, config.metadata_log_dir, config.metrics_interval_ms)
