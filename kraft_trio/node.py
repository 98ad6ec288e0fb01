"""A running node: its actors, its nursery tree, and what an application asks of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic
from uuid import UUID

import trio
from typing_extensions import TypeVar

from kraft_trio.actors.appender import Appender
from kraft_trio.actors.bootstrap_servers import BootstrapServers
from kraft_trio.actors.command_executor import CommandExecutor
from kraft_trio.actors.election import Election
from kraft_trio.actors.epoch_context import NodeContext
from kraft_trio.actors.fenced_append import append_in_epoch
from kraft_trio.actors.internal_listener import InternalListener, OwnRemoval
from kraft_trio.actors.leadership import Leadership, Term
from kraft_trio.actors.log_cleaner import LogCleaner
from kraft_trio.actors.memory_budget import MemoryBudget
from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.actors.network_server import NetworkServer
from kraft_trio.actors.read_index_lookup import ReadIndexLookup
from kraft_trio.actors.record_checker import RecordChecker
from kraft_trio.actors.record_decoder import RecordDecoder
from kraft_trio.actors.request_failures import RequestFailures
from kraft_trio.actors.request_router import FORWARDER_CLIENT_ID, RequestRouter
from kraft_trio.actors.snapshot_fetch import SnapshotFetch
from kraft_trio.actors.snapshot_taker import SnapshotTaker
from kraft_trio.actors.state_machine_driver import OnCommit, StateMachineDriver, committed_batches
from kraft_trio.actors.transfer_asker import TransferAsker
from kraft_trio.actors.voter_addresses import VoterAddresses
from kraft_trio.actors.voter_gossip import VoterGossip
from kraft_trio.application.decoding import Decoding, OnBadRecord
from kraft_trio.application.machine_adapter import MachineAdapter
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed, StateSnapshots
from kraft_trio.config import NodeConfig
from kraft_trio.environment import Environment
from kraft_trio.errors import EncodeError, NodeClosedError, SerdeError, StorageFailure, leaves
from kraft_trio.messages import LeadershipLost, QuorumView, Staleness
from kraft_trio.metrics.metrics_file import MetricsFile
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.protocol.waits import reconnect_backoff_max_ms
from kraft_trio.storage.batch import NewRecord
from kraft_trio.storage.boot_counter import BootCounter
from kraft_trio.storage.directory import LockedDirectory
from kraft_trio.storage.disk_reserve import DiskReserve
from kraft_trio.storage.log import Log
from kraft_trio.storage.new_record_check import check_new_record
from kraft_trio.storage.quorum_state import QuorumStateFile
from kraft_trio.storage.removal_marker import RemovalMarker

T = TypeVar("T", default=Any)
R = TypeVar("R", default=Any)


class Node(Generic[T, R]):
    """A running replica.  `open_node` makes it.  It owns its actors, its log and its directory's lock.

    T is the type of its values, and R that of the results of its state machine.
    """

    def __init__(
        self,
        config: NodeConfig,
        environment: Environment,
        directory: LockedDirectory,
        reserve: DiskReserve,
        log: Log,
        *,
        serde: Serde[T],
        on_commit: OnCommit | None,
        snapshots: StateSnapshots | None,
        machine: MachineAdapter[T, R] | None = None,
        on_bad_record: OnBadRecord = "stop",
    ) -> None:
        """`machine` is what gives `on_commit` and `snapshots` their values, if it is a StateMachine."""
        self.config = config
        self.cluster_id = directory.meta_properties.cluster_id
        self.key = ReplicaKey(config.node_id, directory.meta_properties.directory_id)
        self.log = log
        self._reserve = reserve
        self._serde = serde
        self._machine = machine
        self._on_bad_record: OnBadRecord = on_bad_record
        self._memory = MemoryBudget(config.queued_max_request_bytes)
        self._observer_versions: dict[ReplicaKey, VersionRange] = {}
        client_id = f"raft-client-{config.node_id}"
        backoff_max_ms = reconnect_backoff_max_ms(config.fetch_timeout_ms, config.election_timeout_ms)
        self._client, self._forwarder, self._reader = (
            NetworkClient(environment.network, name, environment.random, config.max_request_bytes, backoff_max_ms)
            for name in (client_id, FORWARDER_CLIENT_ID, client_id)
        )
        self._snapshot_fetch = SnapshotFetch(environment.disk, log)
        removal = RemovalMarker(environment.disk, log.directory, self.key)
        self._failures = RequestFailures(environment.unexpected)
        context = NodeContext(
            key=self.key,
            cluster_id=self.cluster_id,
            config=config,
            log=log,
            snapshot_fetch=self._snapshot_fetch,
            removal=removal,
            client=self._client,
            addresses=VoterAddresses(self._client, config.controller_listener_name),
            bootstrap=BootstrapServers(environment.network, config),
            random=environment.random,
            secret_bits=environment.secret_bits,
            wall_clock_ms=environment.wall_clock_ms,
            clock_s=environment.clock_s,
            failures=self._failures,
        )
        quorum_state_path = directory.quorum_state_path(config.topic_name)
        self.election = Election(
            context, QuorumStateFile(environment.disk, quorum_state_path, reserve), self._observer_versions
        )
        self._transfers = TransferAsker(context, self._forwarder, self.election.view, lambda: self._closed)
        self._gossip: VoterGossip | None = None
        if config.voter_gossip:
            boots = BootCounter(environment.disk, directory.path)
            self._gossip = VoterGossip(context, self.election.view, boots)
        self._internal_listener = InternalListener(
            log, self.election.tell, (self._client, self._forwarder, self._reader), OwnRemoval(log, self.key, removal)
        )
        self._appender = Appender(
            config=config,
            client=self._forwarder,
            view=self.election.view,
            random_source=environment.random,
            wall_clock_ms=environment.wall_clock_ms,
        )
        self._read_indexes = ReadIndexLookup(context, self._reader, self.election.view, lambda: self._closed)
        router = RequestRouter(
            context,
            self.election.view,
            self.election.tell,
            self._forwarder,
            None if snapshots is None else self.take_snapshot,
            RecordChecker(environment.off_loop, config.max_message_bytes, config.max_decompressed_bytes),
            self._gossip,
        )
        self._server = NetworkServer(environment.network, config, router, self._memory, self._failures)
        self._environment = environment
        self._metrics: NodeMetrics | None = None
        self._cleaner = LogCleaner(log, config)
        self._taker: SnapshotTaker | None = None
        if snapshots is not None:
            self._taker = SnapshotTaker(environment.disk, log, snapshots, config, self._cleaner)
        self._record_decoder = RecordDecoder(environment.off_loop, config.max_decompressed_bytes)
        self._driver: StateMachineDriver | None = None
        if on_commit is not None:
            self._driver = StateMachineDriver(
                log,
                on_commit,
                self._record_decoder,
                disk=environment.disk,
                snapshots=snapshots,
                taker=self._taker,
            )
        self._executor: CommandExecutor[R] | None = None
        if machine is not None and self._driver is not None:
            self._executor = CommandExecutor(
                self._appender, self._driver, machine, environment.wall_clock_ms, environment.secret_bits
            )
        self._closed = False
        self._fault: BaseException | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the nursery tree.  A fault in any child ends the node; the next start recovers from disk."""
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._server.run)
                await nursery.start(self._client.run)
                await nursery.start(self._forwarder.run)
                await nursery.start(self._reader.run)
                nursery.start_soon(self._internal_listener.run)
                if self._driver is not None:
                    nursery.start_soon(self._driver.run)
                if self._machine is not None and self._machine.on_leader_change is not None:
                    nursery.start_soon(self._tell_who_leads, self._machine.on_leader_change)
                if self._taker is not None:
                    nursery.start_soon(self._taker.run)
                nursery.start_soon(self._cleaner.run)
                await nursery.start(self._snapshot_fetch.run)
                nursery.start_soon(self.election.run)
                nursery.start_soon(self._appender.run)
                nursery.start_soon(self._read_indexes.run)
                if self._gossip is not None:
                    nursery.start_soon(self._gossip.run)
                nursery.start_soon(self._end_with_the_disk)
                if self.config.metrics_interval_ms > 0:
                    nursery.start_soon(self.metrics.run)
                    nursery.start_soon(self._metrics_file().run)
                task_status.started()
        except BaseException as error:
            self._fault = error
            raise
        finally:
            self._closed = True
            self.election.view.look_again()
            await self._snapshot_fetch.abandon()

    async def _tell_who_leads(self, on_leader_change: Callable[[QuorumView], object]) -> None:
        """Call the state machine with the present view, and again when the epoch or its leader changes."""
        told: tuple[int, int | None] | None = None

        def is_news(view: QuorumView) -> bool:
            return (view.epoch, view.leader_id) != told

        while True:
            view = await self.election.view.wait_for(is_news)
            told = (view.epoch, view.leader_id)
            on_leader_change(view)

    async def _end_with_the_disk(self) -> None:
        """End the node when its disk has failed.  When the disk is full, hand over first."""
        failure = await self._reserve.wait_for_the_end()
        if self.log.poisoned is None:
            await self.election.shut_down()
        raise failure

    @property
    def faults(self) -> list[BaseException]:
        """The errors with which this node has ended or is about to end."""
        faults = [] if self._fault is None else list(leaves(self._fault))
        faults = [fault for fault in faults if not isinstance(fault, trio.Cancelled)]
        return faults or ([] if self.disk_failure is None else [self.disk_failure])

    @property
    def disk_failure(self) -> StorageFailure | None:
        """The error with which this node is about to end because its disk is full or has failed; else None."""
        return self._reserve.failure

    def _metrics_file(self) -> MetricsFile:
        config = self.config
        return MetricsFile(self.metrics, self._environment.disk, config.metadata_log_dir, config.metrics_interval_ms)

    @property
    def view(self) -> QuorumView:
        """The quorum as this node sees it now: epoch, role, leader, voters."""
        return self.election.view.value

    @property
    def high_watermark(self) -> int | None:
        """The end (exclusive) of what this node knows to be committed; None if it does not know."""
        return self.log.high_watermark

    @property
    def metrics(self) -> NodeMetrics:
        """The node's metrics (KIP-595 and KIP-853, "Metrics"), in their own registry.

        Latencies and rates count from the first access, or from the start if the node writes a metrics file.
        """
        if self._metrics is None:
            self._metrics = NodeMetrics(
                key=self.key,
                config=self.config,
                log=self.log,
                view=self.election.view,
                progress=lambda: self.election.progress,
                failures=self._failures,
                snapshot_fetch=self._snapshot_fetch,
                snapshot_taker=self._taker,
                wall_clock_ms=self._environment.wall_clock_ms,
                has_virtual_time=self._environment.has_virtual_time,
            )
        return self._metrics

    async def wait_for_leader(self) -> QuorumView:
        """Wait until this node knows the leader of its epoch, which may be itself.

        Raises NodeClosedError if the node has stopped or stops meanwhile.
        """
        await trio.lowlevel.checkpoint()
        view = await self.election.view.wait_for(lambda view: self._closed or view.leader_id is not None)
        if self._closed:
            raise NodeClosedError("wait_for_leader: the node has stopped")
        return view

    async def changes(self) -> AsyncGenerator[QuorumView, None]:
        """Yield the present view, and then the newest one whenever it has changed.

        A reader that is slow misses views in between, but never the newest.  Raises NodeClosedError at the end if the
        node has stopped.
        """
        seen: QuorumView | None = None
        while True:
            await trio.lowlevel.checkpoint()
            view = await self._wait_for_change(seen)
            if view == seen:
                raise NodeClosedError("changes: the node has stopped")
            seen = view
            yield view

    async def _wait_for_change(self, seen: QuorumView | None) -> QuorumView:
        return await self.election.view.wait_for(lambda view: self._closed or view != seen)

    @asynccontextmanager
    async def leadership(self) -> AsyncIterator[Term]:
        """Run a block while this node leads, and cancel it as soon as that ends.

        Waits until this node leads and the application has applied the first record of its epoch.  So the application
        has everything that earlier leaders committed.  Without a state machine, that record is committed.

        If the leadership ends, the block is cancelled, and `async with` ends normally; `term.was_interrupted` is then
        true.  Another node may lead earlier than this one hears of it.  So append with `epoch=term.epoch` within the
        block: no such append takes effect after the first record of a later leader.

        Raises NodeClosedError if the node stops before it leads, and CorruptLogError if the application cannot be given
        the committed records.
        """
        term: Term | None = None
        while term is None:
            await trio.lowlevel.checkpoint()
            leadership = await self._wait_to_lead()
            with leadership.while_it_lasts() as scope:
                await self._wait_for_first_record(leadership)
                term = Term(leadership)
                yield term
        term.was_interrupted = scope.cancelled_caught

    async def _wait_to_lead(self) -> Leadership:
        await self.election.view.wait_for(lambda view: self._closed or self.election.leadership is not None)
        leadership = self.election.leadership
        if leadership is None or self._closed:
            raise NodeClosedError("leadership: the node has stopped")
        return leadership

    async def _wait_for_first_record(self, leadership: Leadership) -> None:
        first = leadership.epoch_start_offset
        if self._driver is not None:
            await self._driver.wait_until_applied(first)
        while self.log.high_watermark is None or self.log.high_watermark <= first:
            await self.log.changed.park()

    async def resign(self) -> None:
        """Give up the leadership, if this node leads.  Returns when it leads no more.

        The voter with the longest log campaigns at once.  This node may be elected again, in a later epoch.
        """
        await trio.lowlevel.checkpoint()
        view = self.view
        if isinstance(view.role, Leader) and not self._closed:
            await self.election.tell(LeadershipLost(view.stamp, "the application has resigned"))
            await self.election.view.wait_for(lambda now: self._closed or now.stamp != view.stamp)

    async def transfer_leadership(self, to: int, *, timeout_ms: int = 30_000) -> int:
        """Have the voter of this id lead.  Works on any node.  Returns the epoch that it leads.

        The leader waits until the voter has caught up, holds appends for a moment, and resigns in its favour.  If
        another voter wins, that one is asked again.  A cancelled call may or may not transfer the leadership.

        Raises

        - RefusedError if that node is no voter, or does not catch up in time,
        - OutcomeUnknownError if the node does not lead when the time is over,
        - UnsupportedVersionError if the leader is one of Apache Kafka,
        - NodeClosedError if this node has stopped.
        """
        if not isinstance(to, int):
            raise TypeError(f"to: {to!r}, expected the id of a voter")
        return await self._transfers.transfer(to, timeout_ms)

    async def append(self, values: Sequence[T | NewRecord], *, epoch: int | None = None) -> range:
        """Append values at consecutive offsets, wait until they are committed, and return the offsets.

        A value that has a key or headers is given as a NewRecord, encoded by the node's serde already.

        Works on any node, also on followers and observers, and across changes of the leader.  Each value takes effect
        at most once.  The only timeout is the caller's cancel scope; a cancelled append may or may not take effect.

        With `epoch`, the values take effect in that epoch of this node's leadership or never (`leadership`).

        Raises EncodeError, RecordTooLargeError or RefusedError if nothing was appended, OutcomeUnknownError if it may
        have been, NodeClosedError if the node has stopped before it sent the values, and ValueError without values.
        With `epoch` also NotLeaderError: this node does not lead that epoch, and nothing was appended.
        """
        if self._closed:
            raise NodeClosedError("append: the node has stopped")
        if not values:
            raise ValueError("values: none given, at least one expected")
        if isinstance(values, str | bytes | NewRecord):
            raise TypeError(f"values: {type(values).__name__}, expected a list of values")
        records = self._encoded(values)
        if epoch is None:
            base_offset = await self._appender.append(records)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
            base_offset = await append_in_epoch(
                self.view,
                epoch,
                records,
                timestamp_ms=self._environment.wall_clock_ms(),
                max_message_bytes=self.config.max_message_bytes,
            )
        return range(base_offset, base_offset + len(values))

    async def execute(self, command: T | NewRecord, request_id: UUID | None = None) -> R:
        """Append a command, wait until this node's state machine has applied it, and return the result.

        Works on any node, also on followers and observers.  Without `request_id`, the command is applied at most once.
        With one, it is applied exactly once, however often and on whichever nodes it is executed with that id, also
        after a restart: each call returns the result of the first application (`new_request_id`).  The only timeout is
        the caller's cancel scope; a cancelled command may or may not be applied.

        Raises

        - NotAppendedError if the command has not been applied by this call and never will be,
        - OutcomeUnknownError if it may be, with the `request_id` to call `execute` with again,
        - CommandFailed if the state machine has refused it, on every replica,
        - RequestTooOldError if the id is so old that nobody knows whether the command was applied,
        - ResultLostError if it was applied but its result is not known here,
        - BadRecordError or CorruptLogError if this node's state machine has stopped at an earlier record,
        - ValueError if the node was opened without a StateMachine, or for an id that is not a UUID of version 7.
        """
        if self._executor is None:
            raise ValueError("execute: the node was opened without state_machine=, so commands have no results")
        [record] = self._encoded([command])
        return await self._executor.execute(record, request_id)

    def new_request_id(self) -> UUID:
        """Make an id for `execute`: a UUID of version 7, which any other generator of these may make as well.

        The nodes remember the last 100,000 requests of the last hour, and at most 64 MiB of results.  The clocks of the
        nodes may differ by up to five minutes.
        """
        return new_request_id(self._environment.wall_clock_ms(), self._environment.secret_bits(RANDOM_BITS))

    def _encoded(self, values: Sequence[T | NewRecord]) -> list[NewRecord]:
        """Encode values, and check records.  Raises EncodeError."""
        encode = self._serde.encode
        try:
            return [
                self._checked(value) if isinstance(value, NewRecord) else NewRecord(encode(value)) for value in values
            ]
        except EncodeError:
            raise
        except (SerdeError, ValueError) as error:
            raise EncodeError(f"value: not appended: {error}") from error

    def _checked(self, record: NewRecord) -> NewRecord:
        check_new_record(record)
        self._serde.decode(record.value or b"")
        return record

    async def committed(self, from_offset: int = 0) -> AsyncGenerator[Committed[T], None]:
        """Yield the committed values from `from_offset` (inclusive) on, and wait for more at the end.

        Reads this node's own copy of the log.  Offsets have gaps, because control records use some of them.

        Raises BadRecordError for a record that the node's serde cannot decode, CorruptLogError for committed records
        that cannot be read, and NodeClosedError at the end if the node has stopped.
        """
        decoding = Decoding(self._serde, self._on_bad_record)
        lists = committed_batches(self.log, from_offset, self._record_decoder, lambda: self._closed)
        async with aclosing(lists) as batches:
            async for records in batches:
                for record in records:
                    committed = decoding.decode(record)
                    if committed is not None:
                        yield committed

    async def wait_until_applied(self, offset: int) -> None:
        """Wait until the application's state includes the record at `offset` (inclusive) and all before it.

        They were applied, or loaded from a snapshot.  `append` returns such offsets.

        Raises ValueError if the node was opened without a state machine, BadRecordError or CorruptLogError if earlier
        committed records cannot be decoded or read, and NodeClosedError if the node has stopped or stops meanwhile.
        """
        if self._driver is None:
            raise ValueError("wait_until_applied: the node was opened without state_machine= or on_commit=")
        await self._driver.wait_until_applied(offset)

    @property
    def skipped_records(self) -> int:
        """How many committed records the serde could not decode, so that the state machine never got them.

        Counts from the start of the node, and stays 0 unless it was opened with `on_bad_record="skip"`.
        """
        return 0 if self._machine is None else self._machine.skipped_records

    async def read_barrier(self) -> int:
        """Wait until a read on this node sees every append that was acknowledged before, anywhere.

        Works on any node, also on followers and observers, and writes nothing to the log.  The leader first learns
        from a majority that nobody has replaced it.  Returns the read index (exclusive): the application has all
        records below it, or this node's log has them committed if the node was opened without `on_commit`.  The only
        timeout is the caller's cancel scope.

        Raises CorruptLogError if earlier committed records cannot be read, and NodeClosedError if the node has stopped
        or stops meanwhile.
        """
        read_index = await self._read_indexes.read_index()
        if self._driver is not None:
            await self._driver.wait_until_applied(read_index - 1)
            return read_index
        while self.log.high_watermark is None or self.log.high_watermark < read_index:
            if self._closed:
                raise NodeClosedError("read_barrier: the node has stopped")
            await self.log.changed.park()
        return read_index

    @property
    def stale(self) -> Staleness:
        """How old the state may be that a read without a barrier sees."""
        heard_s = self.election.last_heard_s
        age_ms = None if heard_s is None else round((trio.current_time() - heard_s) * 1000)
        offset = self.log.high_watermark or 0 if self._driver is None else self._driver.applied_offset
        return Staleness(offset, age_ms)

    async def take_snapshot(self) -> OffsetAndEpoch | None:
        """Take a snapshot of the application now, and trim the log as the configuration allows.

        Returns the end offset (exclusive) and epoch of the newest snapshot.  That is an earlier one if nothing has
        committed since, and None if nothing ever has.  Commits go on meanwhile.  A cancelled call leaves a whole
        snapshot or none.

        Raises ValueError if the node was opened without a state machine, NodeClosedError and StorageFailure.
        """
        if self._taker is None:
            raise ValueError(
                "take_snapshot: the node was opened without state_machine= or snapshots=, so its log is never trimmed"
            )
        if self._closed:
            raise NodeClosedError("take_snapshot: the node has stopped")
        return await self._taker.take()

    def observer_supports(self, observer: ReplicaKey, kraft_versions: VersionRange | None) -> None:
        """Tell the leader which kraft.versions an observer supports, or None if it is gone (KIP-853).

        An upgrade that one of the observers does not support is refused.  Observers of this implementation tell it
        themselves; this call takes precedence.
        """
        if kraft_versions is None:
            self._observer_versions.pop(observer, None)
        else:
            self._observer_versions[observer] = kraft_versions
