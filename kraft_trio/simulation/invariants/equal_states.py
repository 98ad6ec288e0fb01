from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.facts.snapshot_files import content_of, snapshots_of
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.storage.batch import Record


class EqualStates(Invariant):
    """Every replica makes its snapshots by itself, out of the same records in the same order; one that is fetched in
    pieces, perhaps from two leaders in turn, is of use only if it is the same file everywhere (KIP-630 "Snapshot
    format").  And a state machine that has been given the records up to an offset is in the state of every other that
    has; the digest of the values it was given stands for its state."""

    number = 19
    title = "snapshots with the same id are byte-equal, and so are states at the same offset"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._snapshots: dict[OffsetAndEpoch, tuple[str, int]] = {}
        self._read: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()
        self._states: dict[int, tuple[bytes, int]] = {}

    def started(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def ended(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def finished(self) -> None:
        """By now each has been read once; a second time, since they must not have changed."""
        self._read.clear()
        for replica in self.cluster.replicas:
            if replica.node is not None:
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
        committed = self.evidence.records.digest_below(end_offset)
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
