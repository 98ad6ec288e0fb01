from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.protocol.roles import Candidate, Leader, Prospective
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.membership import is_member, text_of

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.replica import Replica


class MembersCampaign(Invariant):
    """A replica that its own newest set does not name would disturb the quorum it left or has not joined, and could win
    by votes of replicas that know even less (KIP-853 "Leader election").  So only members, by id and directory id, ask
    for pre-votes or votes.  Anyone may vote: the voter's set may be the older one."""

    number = 16
    title = "only members of their own newest voter set campaign"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if not isinstance(new.role, Prospective | Candidate | Leader) or (old is not None and old.stamp == new.stamp):
            return
        voters = self.evidence.voters.newest(replica)
        if not is_member(voters, replica.key):
            fact = f"the last voters in the log of {replica.key} are {text_of(voters)}"
            self.violated(fact, f"it becomes {type(new.role).__name__} in epoch {new.epoch}", (replica.key.id,))
