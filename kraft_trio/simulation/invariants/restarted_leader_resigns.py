from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Leader, Resigned
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.facts import Evidence
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.facts.replica import Entry, Replica


class RestartedLeaderResigns(Invariant):
    """A leader that crashes may lose what it had not synced although a follower has it already.  If it went on leading
    its epoch it would give the same offsets to other records, and (epoch, offset) would name two.  So it comes back as
    Resigned (KIP-595 "Resigned"), and the leader of an epoch appends at each offset once, for ever."""

    number = 4
    title = "a restarted leader never leads its old epoch again, so (epoch, offset) names one record"

    def __init__(self, cluster: Cluster, evidence: Evidence) -> None:
        super().__init__(cluster, evidence)
        self._led_by: dict[int, tuple[ReplicaKey, int]] = {}
        """The replica that led an epoch, and which of its processes."""
        self._appended_ends: dict[int, int] = {}

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        key, process = replica.key, self.evidence.processes.get(replica.key, 0)
        if isinstance(new.role, Leader):
            known = self._led_by.setdefault(new.epoch, (key, process))
            if known[0] == key and known[1] != process:
                fact = f"process {known[1]} of {key} led epoch {new.epoch}"
                self.violated(fact, f"its process {process} leads it again", (key.id,))
        elif old is None and self._led_by.get(new.epoch, (None, 0))[0] == key and not isinstance(new.role, Resigned):
            fact = f"{key} led epoch {new.epoch} before it was restarted"
            self.violated(fact, f"it comes back as {type(new.role).__name__}", (key.id,))

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not by_leader:
            return
        for entry in entries:
            end = self._appended_ends.get(entry.epoch, 0)
            if entry.base_offset < end:
                fact = f"the leader of epoch {entry.epoch} had appended up to offset {end}"
                other = f"{replica.key} appends at offset {entry.base_offset} in that epoch"
                self.violated(fact, other, (replica.key.id,))
            self._appended_ends[entry.epoch] = max(end, entry.next_offset)
