from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.membership import is_majority, text_of, text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class CommitByMajority(Invariant):
    """Committed means: whatever crashes, every majority that could elect has a replica that still holds the record.  So
    only what is on the devices counts, and only on those of members of the newest set in the leader's log: a
    VotersRecord counts by the set that it brings, another incarnation of a member is none, nor is a leader outside the
    set (KIP-853 "High watermark").  A follower takes for committed only what the leader does.

    A disk that is replaced takes its records with it, but not the promise: the incarnation it carried can never again
    vote for anybody, so what it claimed durably before still counts."""

    number = 11
    title = "a record commits only once a majority of its own voter set holds it durably"

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        view = replica.view
        if view is None:
            return
        key = replica.key
        if not replica.is_leader:
            committed = self.evidence.committed.end
            if new > committed:
                fact = f"leaders have committed up to offset {committed}"
                self.violated(fact, f"{key}, no leader, takes {new} for committed", (key.id,))
            return
        voters = self.evidence.voters.newest(replica)
        entry = replica.entry_at(new - 1)
        holders = [] if entry is None else [v.key for v in voters if self._holds(v.key, entry, view.epoch)]
        if not is_majority(len(holders), voters):
            fact = f"{key} leads epoch {view.epoch} and takes its log up to offset {new} for committed"
            other = f"of the voters {text_of(voters)} only {text_of_keys(holders)} hold that durably"
            self.violated(fact, other, (key.id, *voters.ids))

    def _holds(self, member: ReplicaKey, entry: Entry, epoch: int) -> bool:
        for replica in self.evidence.incarnations(member):
            held = replica.entry_ending_at(entry.next_offset)
            if held is not None and held.chain == entry.chain and replica.has_durably(held):
                return True
            is_gone = replica.machine.replica is not replica
            if is_gone and self.evidence.claims.get((replica.key, epoch), 0) >= entry.next_offset:
                return True
        return False
