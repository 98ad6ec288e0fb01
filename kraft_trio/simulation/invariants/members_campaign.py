from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Candidate, Leader, Prospective
from kraft_trio.simulation.facts.membership import is_member, text_of
from kraft_trio.simulation.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.facts.voter_sets import LoggedVoters


class MembersCampaign(Invariant):
    """A replica that its own newest set does not name would disturb the quorum it left or has not joined, and could win
    by votes of replicas that know even less (KIP-853 "Leader election").  So only members, by id and directory id, ask
    for pre-votes or votes.  Anyone may vote: the voter's set may be the older one.

    A member of the set before the newest counts as one for as long as it does not know that the newest is committed:
    a leader that has appended its own removal may have the only log that can win, and by then nobody else could commit
    it (Ongaro's thesis, 4.2.2).  It does not count its own vote (22)."""

    number = 16
    title = "only members campaign: of their newest voter set, or of the last one known to be committed"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if not isinstance(new.role, Prospective | Candidate | Leader) or (old is not None and old.stamp == new.stamp):
            return
        last = self.evidence.voters.last(replica)
        if not is_member(last.voters, replica.key) and not self._was_member(replica, last):
            fact = f"the last voters in the log of {replica.key} are {text_of(last.voters)}"
            self.violated(fact, f"it becomes {type(new.role).__name__} in epoch {new.epoch}", (replica.key.id,))

    def _was_member(self, replica: Replica, last: LoggedVoters) -> bool:
        """Whether it is a member of the set before, and has not learned that the last one is committed."""
        is_known = replica.high_watermark is not None and replica.high_watermark >= last.next_offset
        return not is_known and any(
            is_member(voters, replica.key) for voters in self.evidence.voters.before_newest(replica)
        )
