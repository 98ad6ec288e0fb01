from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.facts.snapshot_files import problem_with_cover, snapshots_of
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message
    from kraft_trio.storage.batch import Record


class SnapshotsCoverTheLog(Invariant):
    """A snapshot stands for the records it replaces: a log that begins above 0 has lost them, so it needs one that ends
    where it begins or later, whole to its footer (KIP-630 "Log start offset").  It may hold only what is committed,
    since it can never be truncated; and a leader holds every committed record already, so it never asks for one."""

    number = 18
    title = "a log that begins above 0 has a valid snapshot that reaches it; a leader never loads one"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._known: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()

    def started(self, replica: Replica) -> None:
        self._check(replica)
        if replica.node is not None:
            self._check_cover(replica, replica.node.log.log_start_offset, replica.machine.disk.peek)

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        """What is gone is gone also after a crash, so what stands for it must be there after one."""
        self._check(replica)
        self._check_cover(replica, start_offset, replica.machine.disk.durable_bytes)

    def _check_cover(self, replica: Replica, start: int, read: Callable[[str], bytes | None]) -> None:
        problem = problem_with_cover(replica, start, read) if start else None
        if problem is not None:
            self.violated(f"the log of {replica.key} begins at offset {start}", problem, (replica.key.id,))

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        self._check(replica)

    def ended(self, replica: Replica) -> None:
        self._check(replica)

    def finished(self) -> None:
        for replica in self.cluster.replicas:
            if replica.node is not None:
                self._check(replica)

    def _check(self, replica: Replica) -> None:
        """Every snapshot that is new here; they never change once they are there."""
        key, committed = replica.key, self.evidence.committed
        for snapshot_id in snapshots_of(replica):
            if (key, snapshot_id) in self._known:
                continue
            self._known.add((key, snapshot_id))
            last = committed.entry_ending_at(snapshot_id.offset)
            if snapshot_id.offset > committed.end:
                fact = f"{key} has a snapshot up to offset {snapshot_id.offset}"
                self.violated(fact, f"the log is committed up to offset {committed.end} only", (key.id,))
            elif last is not None and last.epoch != snapshot_id.epoch:
                fact = f"{key} has a snapshot {snapshot_id}"
                self.violated(fact, f"the last record before that offset is of epoch {last.epoch}", (key.id,))

    def message_sent(self, message: Message) -> None:
        if message.api_key != FETCH_SNAPSHOT.key or not message.is_request:
            return
        replica = self.evidence.replica_at(message.source)
        if replica is not None and replica.is_leader:
            self.violated(f"{replica.key} is leader", f"it asks {message.target} for a snapshot", (replica.key.id,))
