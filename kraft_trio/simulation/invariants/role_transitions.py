from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.one_leader_per_epoch import named_leader

if TYPE_CHECKING:
    from kraft_trio.messages import QuorumView
    from kraft_trio.simulation.facts.replica import Replica

FIRST: Final[tuple[type[Role], ...]] = (Unattached, Candidate, Follower, Resigned)
"""What a process may begin as: never as one who asks for pre-votes, nor as a leader."""

IN_THE_SAME_EPOCH: Final[Mapping[type[Role], tuple[type[Role], ...]]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Prospective, Unattached, Follower),
    Candidate: (Candidate, Prospective, Leader, Follower),
    Follower: (Follower, Prospective),
    Leader: (Leader, Resigned),
    Resigned: (Resigned,),
}
"""What a role may become while its epoch lasts; the rest of the rule is for higher epochs."""


class RoleTransitions(Invariant):
    """The proofs of everything else go by role: a leader leads until it resigns or hears of a higher epoch, a follower
    has one leader in an epoch, nobody becomes leader but by winning a vote as candidate, nor candidate but by winning a
    pre-vote (KIP-595 "Quorum state", KIP-996).  Here that table is written down a second time, for pairs of roles as
    published: in a higher epoch anyone becomes Unattached or Follower, a Prospective Candidate too, but in the next."""

    number = 17
    title = "roles change only along the transition table"

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if old is not None and old.role is new.role:
            return
        if not _is_allowed(None if old is None else old.role, new.role):
            before = "its process has just begun" if old is None else f"{replica.key} was {old.role}"
            self.violated(before, f"{replica.key} is {new.role}", (replica.key.id,))
        elif old is not None and old.epoch == new.epoch:
            known, names = (named_leader(role, replica.key.id) for role in (old.role, new.role))
            if known is not None and names != known:
                fact = f"{replica.key} knew {known} as the leader of epoch {new.epoch}"
                self.violated(fact, f"now it is {new.role}", (replica.key.id, known))


def _is_allowed(old: Role | None, new: Role) -> bool:
    if old is None:
        return isinstance(new, FIRST)
    if new.epoch == old.epoch:
        return isinstance(new, IN_THE_SAME_EPOCH[type(old)])
    if isinstance(new, Candidate):
        return isinstance(old, Prospective) and new.epoch == old.epoch + 1
    return new.epoch > old.epoch and isinstance(new, Unattached | Follower)
