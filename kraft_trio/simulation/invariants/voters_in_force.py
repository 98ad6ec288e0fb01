from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.membership import text_of
from kraft_trio.simulation.facts.snapshot_files import content_of, snapshots_of, voters_in
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.facts import Evidence
    from kraft_trio.simulation.facts.replica import Entry, Replica


class VotersInForce(Invariant):
    """Everybody who counts must count by the same rule: the set in force is that of the last VotersRecord in the log as
    it is now, else that of the snapshot it begins with, else the configured one (KIP-853 "Voters").  It is in force
    from the append on, goes back in the step of a truncation, and is read anew with the log; and once all is quiet,
    what a node publishes is that set too.  A snapshot has the set that was the last one where it ends."""

    number = 15
    title = "the voter set in force is the last one in the surviving log"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._known: set[tuple[ReplicaKey, OffsetAndEpoch]] = set()

    def started(self, replica: Replica) -> None:
        self._check_snapshots(replica)
        self._check(replica, "has opened its log")

    def ended(self, replica: Replica) -> None:
        self._check_snapshots(replica)

    def trimmed(self, replica: Replica, start_offset: int) -> None:
        self._check_snapshots(replica)

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if any(entry.is_control for entry in entries):
            self._check(replica, f"appended up to offset {entries[-1].next_offset}")

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        self._check(replica, f"truncated to offset {offset}")

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if replica.is_leader:
            self._check(replica, f"took {new} for committed")

    def finished(self) -> None:
        for replica in self.cluster.replicas:
            if replica.node is None or replica.view is None:
                continue
            self._check_snapshots(replica)
            self._check(replica, "was left in peace")
            newest = self.evidence.voters.newest(replica)
            if replica.view.voters != newest:
                fact = f"the last voters in the log of {replica.key} are {text_of(newest)}"
                self.violated(fact, f"it publishes {text_of(replica.view.voters)}", (replica.key.id,))

    def _check_snapshots(self, replica: Replica) -> None:
        """Every one that is new here.  One of what is not committed is for SnapshotsCoverTheLog to report."""
        committed = self.evidence.committed
        for snapshot_id in snapshots_of(replica):
            if (replica.key, snapshot_id) in self._known or snapshot_id.offset > committed.end:
                continue
            self._known.add((replica.key, snapshot_id))
            sets = [entry.voters for entry in committed.voter_sets if entry.next_offset <= snapshot_id.offset]
            given = voters_in(content_of(replica, snapshot_id))
            if sets and sets[-1] is not None and given is not None and given != sets[-1]:
                fact = f"the last voters that are committed below offset {snapshot_id.offset} are {text_of(sets[-1])}"
                other = f"snapshot {snapshot_id} of {replica.key} has {text_of(given)}"
                self.violated(fact, other, (replica.key.id,))

    def _check(self, replica: Replica, when: str) -> None:
        if replica.node is None:
            return
        last, history = self.evidence.voters.last(replica), replica.node.log.voters
        if history.voters != last.voters or not last.is_at(history.voters_offset):
            fact = f"the last voters in the log of {replica.key} are {text_of(last.voters)}, at {last.base_offset}"
            other = f"it counts by {text_of(history.voters)}, of offset {history.voters_offset}, after it {when}"
            self.violated(fact, other, (replica.key.id,))
