"""Watches a node: its views, its log and its log messages become facts and events of the trace in the same step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
import trio

from kraft_trio.messages import QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.deterministic import process
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.world import World
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.segments.log_append import PlannedBatch
from kraft_trio.tracing.node_events import NodeEvents


class NodeBeliefs:
    """The Beliefs of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def log_start_offset(self) -> int:
        return self._node.log.log_start_offset

    @property
    def voters(self) -> VoterSet:
        return self._node.log.voters.voters

    @property
    def voters_offset(self) -> int | None:
        return self._node.log.voters.voters_offset

    @property
    def target(self) -> tuple[ReplicaKey, ...]:
        return self._node.log.voters.target

    @property
    def old_copies(self) -> tuple[ReplicaKey, ...]:
        told = self._node.tree.restored.told
        return tuple(voter.key for voter in told) if told else ()

    def knows_corrupt(self, snapshot_id: OffsetAndEpoch) -> bool:
        return snapshot_id in self._node.log.snapshots.corrupt

    def keeps_up(self, key: ReplicaKey) -> bool:
        table = self._node.election.progress
        lately_s = trio.current_time() - self._node.config.fetch_timeout_ms / 1000
        return table is not None and table.is_caught_up(key, lately_s)

    def synced_end_of(self, voter: Voter) -> int | None:
        table = self._node.election.progress
        progress = None if table is None else table.of_voter(voter)
        return None if progress is None else progress.end_offset


class ReplicaWatch:
    """Watches one process of one replica: updates the replica's facts, then tells the trace and the checker."""

    def __init__(self, world: World, replica: Replica, node: Node) -> None:
        self._replica = replica
        self._events = NodeEvents(world.trace.record, replica.key.id)
        self._checker = world.checker
        self._log = node.log
        replica.beliefs = NodeBeliefs(node)
        replica.view = None
        replica.high_watermark = node.log.high_watermark
        replica.synced_end = node.log.synced_end_offset
        replica.reset_applied()
        replica.load()
        node.log.watch(self)
        node.election.view.subscribe(self._published)
        self._events.started(replica.key)
        self._checker.started(replica)

    def _published(self, view: QuorumView) -> None:
        old, self._replica.view = self._replica.view, view
        self._events.published(old, view)
        self._checker.role_changed(self._replica, old, view)

    # LogWatcher

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        entries = self._replica.append(buffer, len(batches), path, position)
        first, last = entries[0], entries[-1]
        brought = [
            (entry.base_offset, VotersRecord(entry.voters, entry.target))
            for entry in entries
            if entry.voters is not None
        ]
        self._events.appended(first.base_offset, last.next_offset, last.epoch, first.is_control, brought)
        self._checker.appended(self._replica, entries, self._replica.is_leader)

    def truncated(self, end_offset: int) -> None:
        removed = self._replica.truncate(end_offset)
        self._replica.synced_end = self._log.synced_end_offset
        self._events.truncated(end_offset, len(removed))
        self._checker.truncated(self._replica, end_offset, removed)

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        removed = self._replica.replace(snapshot_id.offset)
        self._replica.synced_end = self._log.synced_end_offset
        self._events.replaced(snapshot_id, len(removed))
        self._checker.replaced(self._replica, snapshot_id.offset, removed)

    def trimmed(self, log_start_offset: int) -> None:
        self._replica.trim(log_start_offset)
        self._events.trimmed(log_start_offset)
        self._checker.trimmed(self._replica, log_start_offset)

    def synced(self, end_offset: int) -> None:
        self._replica.synced_end = end_offset
        self._events.synced()
        self._checker.synced(self._replica, end_offset)

    def high_watermark_advanced(self, old: int | None, new: int) -> None:
        self._replica.high_watermark = new
        self._events.high_watermark_advanced(old)
        self._checker.high_watermark_advanced(self._replica, old, new)

    # Called just before the application's own state machine

    def loaded(self, end_offset: int) -> None:
        self._replica.load_state(end_offset)
        self._events.loaded(end_offset)
        self._checker.loaded(self._replica, end_offset)

    def restored(self, end_offset: int, digest: bytes) -> None:
        self._checker.restored(self._replica, end_offset, digest)

    def applied(self, records: Sequence[Record]) -> None:
        self._replica.apply(records)
        self._events.applied(records)
        self._checker.applied(self._replica, records[0].offset, records)


@contextmanager
def captured_logs(world: World) -> Iterator[None]:
    """While it is open, log messages of nodes go into the trace, as events of kind "log", and nowhere else."""

    def capture(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        node_id = _process_id()
        text = event.pop("event", "")
        error = event.pop("exc_info", None)
        if error:
            world.bug(f"{text} {event}", () if node_id is None else (node_id,), sys.exception())
        world.trace.note("log", node_id, str(text), {"level": method, **event})
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[capture],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _process_id() -> int | None:
    owner = process.get()
    return owner if isinstance(owner, int) else None
