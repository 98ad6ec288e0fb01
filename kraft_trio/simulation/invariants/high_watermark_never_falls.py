from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Entry, Replica


class HighWatermarkNeverFalls(Invariant):
    """What is committed stays committed: it was told to clients and applied.  So a process never takes its high
    watermark back, and the one that a leader begins with covers what leaders before it have committed, since it holds
    all of that and knows no high watermark until a record of its own epoch is committed behind it (KIP-595 "High
    watermark").  And no replica drops a committed record: only what conflicts with a leader's log is truncated, and
    that log has all that is committed.

    A crash may take from a leader what it had not synced although a majority of others had, and its high watermark
    with it: both rules are about one process."""

    number = 9
    title = "the high watermark never falls, and no record below it is truncated"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._known: dict[ReplicaKey, int] = {}

    def started(self, replica: Replica) -> None:
        self._known.pop(replica.key, None)

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        key = replica.key
        before = max(self._known.get(key, 0), old or 0)
        if new < before:
            self.violated(f"the high watermark of {key} was {before}", f"now it is {new}", (key.id,))
        self._known[key] = max(before, new)
        if replica.is_leader and replica.view is not None:
            self._check_successive(key, replica.view.epoch, new)

    def _check_successive(self, key: ReplicaKey, epoch: int, new: int) -> None:
        committed = self.evidence.committed
        commits = committed.of_epoch(epoch)
        lower, higher = committed.epochs_below(epoch), committed.epochs_above(epoch)
        earlier = committed.of_epoch(lower[-1]) if lower else None
        later = committed.of_epoch(higher[0]) if higher else None
        if commits is not None and earlier is not None and commits.first < earlier.last:
            fact = f"the high watermark in epoch {lower[-1]} was {earlier.last}"
            self.violated(fact, f"{key} begins with {commits.first} in epoch {epoch}", (key.id,))
        if later is not None and new > later.first:
            fact = f"the high watermark in epoch {higher[0]} began with {later.first}"
            self.violated(fact, f"{key} takes it to {new} in epoch {epoch}", (key.id,))

    def truncated(self, replica: Replica, offset: int, removed: Sequence[Entry]) -> None:
        key = replica.key
        high_watermark = max(self._known.get(key, 0), replica.high_watermark or 0)
        if offset < high_watermark:
            self.violated(f"the high watermark of {key} is {high_watermark}", f"it truncates to {offset}", (key.id,))
        # Whatever is committed behind the first one has it in its prefix.
        if removed and self.evidence.committed.includes(removed[0]):
            first = removed[0]
            fact = f"the batch of epoch {first.epoch} at offset {first.base_offset} is committed"
            self.violated(fact, f"{key} truncates it, to offset {offset}", (key.id,))
