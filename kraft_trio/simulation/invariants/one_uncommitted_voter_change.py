from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class OneUncommittedVoterChange(Invariant):
    """Consecutive sets have overlapping majorities; a set and the next but one need not.  With two uncommitted
    VotersRecords in one log, a replica that has both and one that has neither could each find a majority of its own
    (KIP-853 "Voter changes": one at a time)."""

    number = 12
    title = "a log has at most one uncommitted VotersRecord"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not any(entry.voters is not None for entry in entries):
            return
        committed = self.evidence.committed.end
        uncommitted = self.evidence.voters.in_log_above(replica, committed)
        if len(uncommitted) > 1:
            offsets = ", ".join(str(logged.base_offset) for logged in uncommitted)
            fact = f"the log of {replica.key} has VotersRecords in the batches at offsets {offsets}"
            self.violated(fact, f"it is committed up to offset {committed} only", (replica.key.id,))
