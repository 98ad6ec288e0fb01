"""The trace of a real node: the same events as in a simulation, written while the node runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from kraft_trio.actors.waiting.published import Published
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey, directory_id_to_text
from kraft_trio.storage.batches.batch import NewRecord, Record, decode_control_batch, peek_header
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.log_append import PlannedBatch
from kraft_trio.tracing.background_file import BackgroundFile
from kraft_trio.tracing.events import NO_STATE, NodeState, event_of
from kraft_trio.tracing.files import TraceHeader, packed_event, packed_header
from kraft_trio.tracing.node_events import NodeEvents

if TYPE_CHECKING:
    from kraft_trio.actors.application.state_machine_driver import OnCommit
    from kraft_trio.application.state_machine import StateSnapshots

_running: ContextVar[NodeTrace | None] = ContextVar("kraft_trio.tracing", default=None)
"""The trace of the node to which the current task belongs."""


def trace_log_line(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that adds each log line of a traced node to the trace, and passes the line on."""
    trace = _running.get()
    if trace is not None:
        fields = {name: value for name, value in event.items() if name not in ("event", "exc_info")}
        if event.get("exc_info"):
            fields["exception"] = repr(sys.exception())
        trace.note("log", str(event.get("event", "")), {"level": method, **fields})
    return event


@asynccontextmanager
async def node_trace(
    path: str | os.PathLike[str], cluster_id: str, key: ReplicaKey, wall_clock_ms: Callable[[], int]
) -> AsyncIterator[NodeTrace]:
    """Trace a node in the `with` block to a new file.  The last event tells how the block ended.

    An existing file of that name is renamed.  At the end of the block, this waits a few seconds, even if cancelled,
    until everything is written.  Raises OSError if the file cannot be created; a full disk is not an error.
    """
    directory_id = directory_id_to_text(key.directory_id)
    header = TraceHeader(cluster_id=cluster_id, node=key.id, directory_id=directory_id)
    file = BackgroundFile(path)
    trace = NodeTrace(file, header, _clock(wall_clock_ms))
    token = _running.set(trace)
    cause = "stopped"
    try:
        yield trace
    except BaseException as error:
        cause = str(error) or type(error).__name__
        raise
    finally:
        with suppress(ValueError):  # The block was left in another context than it was entered in.
            _running.reset(token)
        trace.end(cause)
        await file.close()


def _clock(wall_clock_ms: Callable[[], int]) -> Callable[[], int]:
    """A clock in microseconds that starts at the current wall clock time and never goes back."""
    offset_us = wall_clock_ms() * 1000 - time.monotonic_ns() // 1000
    return lambda: offset_us + time.monotonic_ns() // 1000


class NodeTrace:
    """Writes the events of one process of a node to a file."""

    def __init__(self, file: BackgroundFile, header: TraceHeader, clock_us: Callable[[], int]) -> None:
        """`clock_us` returns the time for events, in microseconds since 1970."""
        assert header.node is not None, "the trace of a node that has no id"
        self._file = file
        self._node_id = header.node
        self._clock_us = clock_us
        self._log: Log | None = None
        self._view: QuorumView | None = None
        self._sequence = 0
        self._lost = 0
        self._is_ending = False
        self._lock = threading.Lock()
        self.events = NodeEvents(self.record, header.node)
        file.append(packed_header(header))

    def attach(self, key: ReplicaKey, log: Log, view: Published[QuorumView]) -> None:
        """From now on, every change of the node's log and of its published view is an event."""
        self._log = log
        log.watch(self)
        view.subscribe(self._published)
        self.events.started(key)

    def end(self, cause: str) -> None:
        """Record how the process ended, and how many events were lost.  There is always room for that."""
        self._is_ending = True
        self.events.ended(cause)

    def record(self, kind: str, *, node: int | None = None, cause: str = "", **details: object) -> None:
        """Record an event that happens now."""
        self.note(kind, cause, details)

    def note(self, kind: str, cause: str, details: Mapping[str, object]) -> None:
        """Like `record`, for details of any name.  Any thread may call it.

        If there is no room for an event, its sequence number is missing, and a later event tells how many were lost.
        """
        with self._lock:
            if self._lost and self._append("lost", "no room to keep them", {"events": self._lost}):
                self._lost = 0
            if self._lost or not self._append(kind, cause, details):
                self._lost += 1
                self._sequence += 1

    def _append(self, kind: str, cause: str, details: Mapping[str, object]) -> bool:
        event = event_of(self._sequence, self._clock_us(), self._node_id, kind, self._state(), cause, details)
        is_kept = self._file.append(packed_event(event), is_last=self._is_ending)
        self._sequence += is_kept
        return is_kept

    def _state(self) -> NodeState:
        log, view = self._log, self._view
        if log is None:
            return NO_STATE
        return NodeState.of(view, log.end_offset, log.synced_end_offset, log.high_watermark)

    def applying(
        self, on_commit: OnCommit | None, snapshots: StateSnapshots | None
    ) -> tuple[OnCommit | None, StateSnapshots | None]:
        """Wrap the application's state machine, so that each call to it is an event first."""
        return (
            None if on_commit is None else partial(self._apply, on_commit),
            None if snapshots is None else _Loading(self, snapshots),
        )

    async def _apply(self, on_commit: OnCommit, records: Sequence[Record]) -> None:
        self.events.applied(records)
        await on_commit(records)

    def _published(self, view: QuorumView) -> None:
        old, self._view = self._view, view
        self.events.published(old, view)

    # LogWatcher

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        first, last = batches[0], batches[-1]
        is_control = peek_header(buffer, 0).is_control
        brought = _voter_sets(buffer, batches)
        self.events.appended(first.base_offset, last.last_offset + 1, last.leader_epoch, is_control, brought)

    def truncated(self, end_offset: int) -> None:
        self.events.truncated(end_offset, None)

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        self.events.replaced(snapshot_id, None)

    def trimmed(self, log_start_offset: int) -> None:
        self.events.trimmed(log_start_offset)

    def synced(self, end_offset: int) -> None:
        self.events.synced()

    def high_watermark_advanced(self, old: int | None, new: int) -> None:
        self.events.high_watermark_advanced(old)


class _Loading:
    """An application's snapshots.  Each load is an event first."""

    def __init__(self, trace: NodeTrace, snapshots: StateSnapshots) -> None:
        self._trace = trace
        self._snapshots = snapshots

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        self._trace.events.loaded(end_offset)
        await self._snapshots.load(end_offset, records)

    def save(self) -> Iterable[NewRecord | bytes]:
        return self._snapshots.save()


def _voter_sets(buffer: Buffer, batches: Sequence[PlannedBatch]) -> Iterator[tuple[int, VotersRecord]]:
    position = 0
    for batch in batches:
        header = peek_header(buffer, position)
        if header.is_control:
            for _, record in decode_control_batch(buffer, position, header):
                if isinstance(record, VotersRecord):
                    yield batch.base_offset, record
        position += batch.size
