from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.membership import text_of
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class NoEarlyVoterChange(Invariant):
    """A leader that has committed nothing in its epoch does not know which of the sets in its log is committed: an
    earlier leader may have committed another change that this log lacks, and both would apply to the same old set with
    majorities that share nobody (the single-server bug of 2015).  A record of its own epoch on a majority rules that
    out (KIP-853 "AddVoter", step 2).  To write down again the set it has found is no change, nor are endpoints."""

    number = 14
    title = "a leader changes no voters before it knows its high watermark"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if not by_leader:
            return
        for entry in entries:
            if entry.voters is None or self.evidence.committed.of_epoch(entry.epoch) is not None:
                continue
            before = self.evidence.voters.before(replica, entry.base_offset)
            if [voter.key for voter in before] != [voter.key for voter in entry.voters]:
                fact = f"{replica.key} has committed nothing in epoch {entry.epoch}"
                other = f"it changes the voters from {text_of(before)} to {text_of(entry.voters)}"
                self.violated(fact, other, (replica.key.id,))
