"""Snapshots and the states that they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.snapshot_files import content_of, problem_with_cover, snapshots_of
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.storage.batches.batch import Record
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT


class SnapshotsCoverTheLog(Invariant):
    """A log that begins above 0 has lost the records before.  It needs a snapshot in their place that ends where the
    log begins or later, and is whole to its footer (KIP-630 "Log start offset").  A snapshot can never be truncated, so
    it may hold only what is committed.  A leader holds every committed record already, so it never asks for a
    snapshot."""

    number = 18
    title = "a log that begins above 0 has a valid snapshot that reaches it; a leader never loads one"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._known: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()

    def started(self, replica: Replica) -> None:
        self._check(replica)
        if replica.beliefs is not None:
            self._check_cover(replica, replica.beliefs.log_start_offset, replica.device.content.peek)

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        """A crash does not bring trimmed records back, so the snapshot must be durable."""
        self._check(replica)
        self._check_cover(replica, start_offset, replica.device.content.durable_bytes)

    def _check_cover(self, replica: Replica, start: int, read: Callable[[str], bytes | None]) -> None:
        problem = problem_with_cover(replica, start, read) if start else None
        if problem is not None:
            self.violated(f"the log of {replica.key} begins at offset {start}", problem, (replica.key.id,))

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        self._check(replica)

    def ended(self, replica: Replica) -> None:
        self._check(replica)

    def finished(self) -> None:
        for replica in self.facts.replicas:
            if replica.beliefs is not None:
                self._check(replica)

    def _check(self, replica: Replica) -> None:
        """Check each snapshot once; a snapshot never changes."""
        key, committed = replica.key, self.facts.committed
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

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return is_request and api_key == FETCH_SNAPSHOT.key

    def message_sent(self, message: Message) -> None:
        replica = self.facts.replica_at(message.source)
        if replica is not None and replica.is_leader:
            self.violated(f"{replica.key} is leader", f"it asks {message.target} for a snapshot", (replica.key.id,))


class EqualStates(Invariant):
    """Every replica makes its snapshots by itself, out of the same records in the same order.  A replica may fetch one
    in pieces from two leaders in turn, so all replicas must have the same file (KIP-630 "Snapshot format").  All state
    machines that have applied the records up to an offset are in the same state.  The digest of the values represents
    the state."""

    number = 19
    title = "snapshots with the same id are byte-equal, and so are states at the same offset"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._snapshots: dict[OffsetAndEpoch, tuple[str, int]] = {}
        self._read: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()
        self._states: dict[int, tuple[bytes, int]] = {}

    def started(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def ended(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def finished(self) -> None:
        """Read every snapshot a second time: it must not have changed."""
        self._read.clear()
        for replica in self.facts.replicas:
            if replica.beliefs is not None:
                self._check_snapshots(replica)

    def applied(self, replica: Replica, base_offset: int, records: Sequence[Record]) -> None:
        self._check_snapshots(replica)
        node_id = replica.key.id
        known, by = self._states.setdefault(replica.applied_end, (replica.applied_digest, node_id))
        if known != replica.applied_digest:
            fact = f"the state of node {by} at offset {replica.applied_end} has digest {known.hex()}"
            self.violated(fact, f"that of node {node_id} has {replica.applied_digest.hex()}", (by, node_id))

    def restored(self, replica: Replica, end_offset: int, digest: bytes) -> None:
        """All that was ever committed below that offset, as other state machines were given it record by record."""
        committed = self.facts.records.digest_below(end_offset)
        if digest != committed:
            fact = f"the values that are committed below offset {end_offset} have digest {committed.hex()}"
            other = f"a snapshot gives the state machine of {replica.key} values with digest {digest.hex()}"
            self.violated(fact, other, (replica.key.id,))

    def _check_snapshots(self, replica: Replica) -> None:
        node_id = replica.key.id
        for snapshot_id in snapshots_of(replica):
            if (replica.key, snapshot_id) in self._read:
                continue
            self._read.add((replica.key, snapshot_id))
            content = content_of(replica, snapshot_id)
            if content is None:
                continue
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            known, by = self._snapshots.setdefault(snapshot_id, (digest, node_id))
            if known != digest:
                fact = f"snapshot {snapshot_id} has digest {known} at node {by}"
                self.violated(fact, f"it has {digest} at node {node_id}", (by, node_id))
