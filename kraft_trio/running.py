"""Opening a node on its directory, and running it until the caller or a signal stops it."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast, overload

import trio

from kraft_trio.actors.application.state_machine_driver import OnCommit
from kraft_trio.application.decoding import ON_BAD_RECORD, OnBadRecord
from kraft_trio.application.machine_adapter import MachineAdapter
from kraft_trio.application.machine_fault import FaultsOfCommits, FaultsOfSnapshots, out_of_fault
from kraft_trio.application.serde import RawSerde, Serde
from kraft_trio.application.state_machine import BatchStateMachine, StateMachine, StateSnapshots, what_is_wrong_with
from kraft_trio.config import NodeConfig, check_is_config
from kraft_trio.config.kafka_start import refuse_kafkas_place
from kraft_trio.environment import Environment
from kraft_trio.errors import StorageFailure
from kraft_trio.extras import needing
from kraft_trio.logs import get_logger, heard_by, naming_node
from kraft_trio.node import Node
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.security.watched_files import reload_all
from kraft_trio.storage.checks.quarantine import refuse_damaged
from kraft_trio.storage.directory.directory import LockedDirectory, refuse_other_topic
from kraft_trio.storage.directory.other_logs import warn_of_other_logs
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.directory.quorum_state_check import check_quorum_state, refuse_missing_quorum_state
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.log.static_voters import check_static_voters
from kraft_trio.surfacing import raise_as_it_is, raise_in_coroutine, surfacing
from kraft_trio.system.signals import ENDS, HANGUP, has_terminal
from kraft_trio.tracing.event_feed import EventFeed
from kraft_trio.tracing.node_trace import NodeTrace, node_trace

if TYPE_CHECKING:
    from kraft_trio.status.node_status import NodeStatus
    from kraft_trio.status.server import StatusServer

log = get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MIN_LARGEST_BATCH_BYTES = 8 * 1024 * 1024
"""A leader's own batches may be this large, even if clients' may not (Kafka's limit for the metadata log)."""


class Options(TypedDict, total=False):
    """What `open_node` takes besides the application, in Trio, asyncio and threads."""

    on_bad_record: OnBadRecord
    environment: Environment | None
    trace: str | os.PathLike[str] | None


class BatchOptions(Options, total=False):
    """What it takes with an application that gets committed batches, or with none."""

    state_machine: BatchStateMachine | None
    on_commit: OnCommit | None
    snapshots: StateSnapshots | None


@overload
def open_node(
    config: NodeConfig, *, state_machine: StateMachine[bytes, R], **options: Unpack[Options]
) -> AbstractAsyncContextManager[Node[bytes, R]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], state_machine: StateMachine[T, R], **options: Unpack[Options]
) -> AbstractAsyncContextManager[Node[T, R]]: ...
@overload
def open_node(
    config: NodeConfig, **options: Unpack[BatchOptions]
) -> AbstractAsyncContextManager[Node[bytes, None]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], **options: Unpack[BatchOptions]
) -> AbstractAsyncContextManager[Node[T, None]]: ...
def open_node(
    config: NodeConfig,
    *,
    serde: Serde[Any] | None = None,
    state_machine: StateMachine[Any, Any] | BatchStateMachine | None = None,
    on_commit: OnCommit | None = None,
    snapshots: StateSnapshots | None = None,
    on_bad_record: OnBadRecord = "stop",
    environment: Environment | None = None,
    trace: str | os.PathLike[str] | None = None,
) -> AbstractAsyncContextManager[Node[Any, Any]]:
    """Open a formatted directory and run a node on it until the block is left; then hand over and close.

    The node has the `state_machine` apply each committed value, in log order.  It starts from the newest snapshot,
    takes further ones, and trims the log behind them (KIP-630).  Without `serde`, values are bytes.

    `on_bad_record` tells what to do with a committed record that the serde cannot decode.  "stop" stops the state
    machine before it, while the node keeps replicating and voting.  "skip" logs and counts it (`skipped_records`).
    All nodes must do the same.

    Below that there is an interface without values and results: the node awaits `on_commit` with the records of each
    committed batch.  `snapshots`, which needs `on_commit`, saves and loads what it builds; without them, `on_commit`
    gets the whole log.  `trace` is a file for the node's events (docs/reference/traces.md).

    Raises StorageError for a directory that cannot be used.  Raises ConfigError for an address that cannot be bound,
    and for the file or directory of a controller of Apache Kafka (`kraft.unsafe.kafka.directory`).  Raises OSError for
    a trace that cannot be written, and ValueError for arguments that do not go together.

    A fault of the running node cancels the block and is raised as it is: StorageFailure, or what the state machine has
    raised.  Errors of the block that only report the node's end are dropped then.
    """
    _check_types(config, serde)
    if on_bad_record not in ON_BAD_RECORD:
        raise ValueError(f"on_bad_record: {on_bad_record!r} given, expected {' or '.join(ON_BAD_RECORD)}")
    machine: MachineAdapter[Any, Any] | None = None
    serde = serde if serde is not None else RawSerde()
    if state_machine is not None:
        if on_commit is not None or snapshots is not None:
            raise ValueError("state_machine: given with on_commit or snapshots, which are its own methods")
        wrong = what_is_wrong_with(state_machine)
        if wrong is not None:
            raise ValueError(f"state_machine: {type(state_machine).__name__}, {wrong}")
        if hasattr(state_machine, "apply"):
            machine = MachineAdapter(
                cast(StateMachine[Any, Any], state_machine), serde, on_bad_record, config.skipped_offsets
            )
            on_commit, snapshots = machine.on_commit, machine
        else:
            on_commit, snapshots = state_machine.on_commit, state_machine
    if snapshots is not None and on_commit is None:
        raise ValueError("snapshots: given without on_commit, which makes the state that they are of")
    return _AsItIs(_opened(config, serde, on_bad_record, machine, on_commit, snapshots, environment, trace))


class _AsItIs(AbstractAsyncContextManager[Node[Any, Any]]):
    """Raises what the state machine has raised.  A class: some errors change on their way out of a generator."""

    def __init__(self, opened: AbstractAsyncContextManager[Node[Any, Any]]) -> None:
        self._opened = opened

    async def __aenter__(self) -> Node[Any, Any]:
        try:
            return await self._opened.__aenter__()
        except BaseException as error:
            found = error
        raise_in_coroutine(out_of_fault(found))

    async def __aexit__(
        self, cls: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return await self._opened.__aexit__(cls, raised, traceback)
        except BaseException as error:
            found = error
        raise_in_coroutine(out_of_fault(found))


@asynccontextmanager
async def _opened(
    config: NodeConfig,
    serde: Serde[T],
    on_bad_record: OnBadRecord,
    machine: MachineAdapter[T, R] | None,
    on_commit: OnCommit | None,
    snapshots: StateSnapshots | None,
    environment: Environment | None,
    trace: str | os.PathLike[str] | None,
) -> AsyncIterator[Node[T, R]]:
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("open_node: called outside trio.run; expected that of kraft_trio.aio or kraft_trio.sync")
    own_environment = environment is None
    environment = environment or Environment.real()
    on_commit, snapshots = environment.applying(on_commit, snapshots)
    try:
        refuse_kafkas_place(environment.disk, config)
        with LockedDirectory.open(
            environment.disk, config.metadata_log_dir, config.node_id, environment.random
        ) as directory:
            properties = directory.meta_properties
            key = ReplicaKey(config.node_id, properties.directory_id)
            async with AsyncExitStack() as stack:
                tracing: NodeTrace | None = None
                if trace is not None:
                    traced = node_trace(trace, properties.cluster_id, key, environment.wall_clock_ms)
                    tracing = await stack.enter_async_context(traced)
                    on_commit, snapshots = tracing.applying(on_commit, snapshots)
                if machine is None:
                    on_commit = None if on_commit is None else FaultsOfCommits(on_commit)
                    snapshots = None if snapshots is None else FaultsOfSnapshots(snapshots)
                make_tree = partial(NodeTree[R], on_commit=on_commit, snapshots=snapshots, machine=machine)
                make_node = partial(Node[T, R], serde=serde, on_bad_record=on_bad_record)
                with naming_node(config.node_id):
                    running = _running(config, environment, directory, key, make_tree, make_node, tracing)
                    node = await stack.enter_async_context(running)
                yield node
    finally:
        if own_environment:
            environment.disk.close()


@asynccontextmanager
async def _running(
    config: NodeConfig,
    environment: Environment,
    directory: LockedDirectory,
    key: ReplicaKey,
    make_tree: Callable[[NodeConfig, Environment, LockedDirectory, DiskReserve, Log], NodeTree[R]],
    make_node: Callable[[NodeTree[R]], Node[T, R]],
    tracing: NodeTrace | None,
) -> AsyncIterator[Node[T, R]]:
    """Open the log of a directory, and run a node on it."""
    # A directory that cannot be used must stay as it is, and opening a log may change it.
    refuse_other_topic(environment.disk, directory.path, config.topic_name)
    warn_of_other_logs(environment.disk, directory.path, config.topic_name)
    refuse_damaged(environment.disk, directory.partition_path(config.topic_name))
    quorum_state_path = directory.quorum_state_path(config.topic_name)
    quorum_state = QuorumStateFile(environment.disk, quorum_state_path)
    election_state = quorum_state.read()
    if election_state is None:
        refuse_missing_quorum_state(environment.disk, directory.partition_path(config.topic_name))
    reserve = DiskReserve(environment.disk, directory.path)
    log_ = Log.open(
        environment.disk,
        directory.partition_path(config.topic_name),
        topic_id=config.topic_id,
        static_voters=config.static_voter_set(),
        config=LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            max_batch_bytes=max(MIN_LARGEST_BATCH_BYTES, config.max_message_bytes),
            max_producers=config.max_producer_ids,
            preallocate_bytes=config.preallocate_bytes,
        ),
        now_ms=environment.wall_clock_ms,
        reserve=reserve,
        syncs_in_place=environment.syncs_in_place,
    )
    try:
        if election_state is not None:
            check_quorum_state(quorum_state_path, election_state, key, log_.end)
            check_static_voters(quorum_state_path, quorum_state.voters, log_)
        tree = make_tree(config, environment, directory, reserve, log_)
        feed = EventFeed(environment.wall_clock_ms)
        status = _status_server(tree, feed) if config.http_listener else None
        tree.tell_status = _teller(tree, feed)
        node = make_node(tree)
        if tracing is not None:
            tracing.attach(node.key, node.log, node.election.view)
        environment.watch(node)
        failed: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                with heard_by(feed.heard):
                    await nursery.start(tree.run)
                if status is not None:
                    nursery.start_soon(status.run)
                yield node
                await node.election.shut_down()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            failed = surfacing(group, tree.faults)
        finally:
            if status is not None:
                status.close()
        if failed is not None:
            raise_as_it_is(failed)
    except StorageFailure:
        # That is what the node ends with, whatever closing the log meets on the same disk.
        with trio.CancelScope(shield=True), suppress(StorageFailure):
            await log_.close()
        raise
    finally:
        with trio.CancelScope(shield=True):
            await log_.close()


def _teller(tree: NodeTree[Any], feed: EventFeed) -> Callable[[], Awaitable[str]]:
    """What tells the node's status.  Only a node that is asked pays for the imports."""

    @cache
    def node_status() -> NodeStatus:
        from kraft_trio.status.node_status import NodeStatus

        return NodeStatus(tree, feed)

    async def tell() -> str:
        return await node_status().text()

    return tell


def _status_server(tree: NodeTree[Any], feed: EventFeed) -> StatusServer:
    """Raises ConfigError if the address cannot be bound, or if the extra is missing."""
    with needing("kv", "kraft.http.listener"):
        from kraft_trio.status.server import StatusServer

    return StatusServer(tree, feed)


def _check_types(config: object, serde: object) -> None:
    """Raises TypeError for the arguments that are most often mixed up."""
    check_is_config(config)
    if serde is not None and not all(_takes_one(getattr(serde, name, None)) for name in ("encode", "decode")):
        instead = f"the class {serde.__name__}" if isinstance(serde, type) else repr(serde)
        raise TypeError(f"serde: {instead}, expected an object with encode and decode")


def _takes_one(method: object) -> bool:
    """Whether this can be called with one argument; a method of a class in place of its instance cannot."""
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        pass
    return True


async def run_node(
    config: NodeConfig,
    *,
    serde: Serde[Any] | None = None,
    state_machine: StateMachine[Any, Any] | BatchStateMachine | None = None,
    environment: Environment | None = None,
    trace: str | os.PathLike[str] | None = None,
    serving: Callable[[Node[Any, Any]], AbstractAsyncContextManager[object]] | None = None,
) -> None:
    """Run a node until SIGTERM, SIGINT or SIGQUIT, then hand over and stop; a second signal stops at once.

    SIGHUP makes it read the files about security again (docs/how-to/secure.md#new-certificates).  If its terminal has
    gone, SIGHUP stops it.  A process that ignores SIGHUP (nohup) keeps ignoring it.  Without a state machine, no
    snapshots are taken and the whole log is kept.  Raises the errors of `open_node`.

    The node runs in the context that `serving` makes of it, if given: what it serves starts there, and stops before the
    node does.
    """
    had_terminal = has_terminal()
    ends = ENDS if signal.getsignal(HANGUP) == signal.SIG_IGN else (*ENDS, HANGUP)
    failed: Exception | None = None
    with trio.open_signal_receiver(*ends) as signals:
        async with trio.open_nursery() as nursery:
            serde = serde if serde is not None else RawSerde()
            opened: AbstractAsyncContextManager[Node[Any, Any]] = open_node(
                config,
                serde=serde,
                state_machine=state_machine,
                environment=environment,
                trace=trace,
            )
            try:
                async with opened as node:
                    log.info("node started", node=str(node.key), cluster_id=node.cluster_id, log_end=str(node.log.end))
                    async with nullcontext() if serving is None else serving(node):
                        await _until_told_to_stop(signals, node, had_terminal=had_terminal)
                    nursery.start_soon(_cancel_at_next_signal, signals, nursery.cancel_scope)
            except Exception as error:
                failed = error  # The nursery would group it.
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise_as_it_is(failed)
    log.info("stopped")


async def _until_told_to_stop(signals: AsyncIterator[int], node: Node[Any, Any], *, had_terminal: bool) -> None:
    async for received in signals:
        name = signal.Signals(received).name
        if received != HANGUP or (had_terminal and not has_terminal()):
            log.info("stopping", signal=name)
            return
        files = node.tree.security_files
        log.info("reading the files about security again", signal=name, files=len(files))
        reload_all(files)


async def _cancel_at_next_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for received in signals:
        if received != HANGUP:
            scope.cancel()
