from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.simulation.facts.membership import changed_members, text_of, text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class OverlappingVoterSets(Invariant):
    """Sets that differ by one replica key have no two majorities that share nobody; with two keys they may: {1,2,3} and
    {1,2,4} have {1,3} and {2,4} (KIP-853 "Voter changes").  A key is id and directory id: the same id on another disk
    is another member.  Other endpoints are no difference, nor is a directory id that was unknown (the upgrade to
    kraft.version 1)."""

    number = 13
    title = "consecutive voter sets differ by at most one replica key"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        for entry in entries:
            if entry.voters is None:
                continue
            before = self.evidence.voters.before(replica, entry.base_offset)
            changed = changed_members(before, entry.voters)
            # An observer that was formatted without voters has no set before the first one that it reads.
            if len(before) and len(changed) > 1:
                fact = f"the voters of {replica.key} were {text_of(before)}"
                other = f"the batch at offset {entry.base_offset} makes them {text_of(entry.voters)}"
                self.violated(fact, f"{other}, another one in {text_of_keys(changed)}", (replica.key.id,))
