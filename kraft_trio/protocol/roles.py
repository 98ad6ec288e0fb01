"""The roles of a node and the table of transitions between them (KIP-595, KIP-996).

A role is a frozen value for one stay in one epoch.  The table in words:

* A message that names a higher epoch moves any role to Unattached in it, or to Follower if it also names the leader.
* A node that hears of no leader first asks whether it could win (Prospective, with a pre-vote in its current epoch).
  It raises its epoch only after a majority said yes (Candidate).  A Candidate that loses waits for its timer and asks
  again.
* A leader leaves its epoch only for a higher one.  It follows no other leader of its epoch, and does not lead again
  after it has resigned.
* A vote that was given and a leader that is known do not change within an epoch.
* The node writes each transition to quorum-state before it says anything that follows from it.  Exceptions are
  transitions that change nothing stored: to Prospective, to Resigned, and a Follower's own bookkeeping.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias

import attrs

from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet


@attrs.frozen
class Unattached:
    """Knows no leader, or none that it can reach.  Fetches from bootstrap servers to find one."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None


@attrs.frozen
class Prospective:
    """Asks the voters whether they would vote for it, without raising its epoch (KIP-996)."""

    epoch: int
    leader_id: int | None = None
    leader_endpoints: Endpoints = Endpoints()
    voted: ReplicaKey | None = None
    leader_resigned: bool = False
    """Whether this leader ended its epoch.  If so, there is no leader to return to, and a refusal is asked again."""


@attrs.frozen
class Candidate:
    """Has voted for itself in this epoch, and asks the other voters."""

    epoch: int


@attrs.frozen
class Follower:
    """Fetches from the leader of this epoch.  It is an observer if its own voter set does not name it."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    """Whether a fetch from this leader succeeded.  If so, pre-votes are refused."""
    leader_resigned: bool = False
    """Whether this leader ended its epoch.  If so, pre-votes are granted again (KAFKA-20895)."""
    lost_pre_vote: bool = False
    """Whether this node asked for pre-votes in vain before it returned to this leader.  The leader may be gone."""


@attrs.frozen
class Leader:
    """The one replica that appends in this epoch."""

    epoch: int
    epoch_start_offset: int
    """The log end offset (exclusive) at the election; the high watermark is unknown until it is above this."""
    granting_voters: frozenset[ReplicaKey] = frozenset()


@attrs.frozen
class Resigned:
    """Led this epoch, in this process or the one before it, and does not lead any more."""

    epoch: int
    preferred_successors: tuple[ReplicaKey, ...] = ()


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


class Event(Enum):
    """The cause of a transition."""

    HIGHER_EPOCH_SEEN = auto()
    """A message names a higher epoch, but no leader that this node can follow."""
    LEADER_DISCOVERED = auto()
    """A message names the leader of this epoch or a higher one, and its address."""
    ELECTION_TIMED_OUT = auto()
    FETCH_TIMED_OUT = auto()
    """The leader answered no fetch within the fetch timeout, or it resigned and the successor's backoff is over."""
    VOTE_GRANTED = auto()
    """This node votes for another one in its current epoch."""
    PRE_VOTE_WON = auto()
    """A majority would vote for this node, or a voter does not know pre-votes (UNSUPPORTED_VERSION)."""
    PRE_VOTE_LOST = auto()
    """Rejected or timed out, and no leader to return to is known."""
    PRE_VOTE_LOST_TO_LEADER = auto()
    """Rejected or timed out, and the leader of this epoch and its endpoints are known."""
    LEADER_MOVED = auto()
    """A peer names another address of the leader that this node cannot reach, or the leader answers at another one."""
    ELECTION_WON = auto()
    FETCHED_FROM_LEADER = auto()
    LEADER_RESIGNED = auto()
    """EndQuorumEpoch arrived from the leader that this node follows."""
    RESIGNED = auto()
    """Caused by shutdown, by check-quorum, or by the commit of the leader's own removal."""


class EpochChange(Enum):
    """How a transition changes the epoch."""

    SAME = auto()
    NEXT = auto()
    HIGHER = auto()
    SAME_OR_HIGHER = auto()

    def allows(self, old_epoch: int, new_epoch: int) -> bool:
        match self:
            case EpochChange.SAME:
                return new_epoch == old_epoch
            case EpochChange.NEXT:
                return new_epoch == old_epoch + 1
            case EpochChange.HIGHER:
                return new_epoch > old_epoch
            case EpochChange.SAME_OR_HIGHER:
                return new_epoch >= old_epoch


@attrs.frozen
class Transition:
    """One row of the table: the new role, whether quorum-state is written first, and how the epoch changes."""

    to: type[Role]
    durable: bool
    epoch: EpochChange = EpochChange.SAME


TRANSITIONS: Mapping[tuple[type[Role], Event], Transition] = {
    (Unattached, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Unattached, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.SAME_OR_HIGHER),
    (Unattached, Event.VOTE_GRANTED): Transition(Unattached, True),
    (Unattached, Event.ELECTION_TIMED_OUT): Transition(Prospective, False),
    (Prospective, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Prospective, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.SAME_OR_HIGHER),
    (Prospective, Event.VOTE_GRANTED): Transition(Prospective, True),
    (Prospective, Event.LEADER_MOVED): Transition(Prospective, False),
    (Prospective, Event.PRE_VOTE_WON): Transition(Candidate, True, EpochChange.NEXT),
    (Prospective, Event.PRE_VOTE_LOST): Transition(Unattached, True),
    (Prospective, Event.PRE_VOTE_LOST_TO_LEADER): Transition(Follower, True),
    (Candidate, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Candidate, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.SAME_OR_HIGHER),
    (Candidate, Event.ELECTION_WON): Transition(Leader, True),
    (Candidate, Event.ELECTION_TIMED_OUT): Transition(Prospective, False),
    (Follower, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Follower, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.SAME_OR_HIGHER),
    (Follower, Event.LEADER_MOVED): Transition(Follower, False),
    (Follower, Event.FETCHED_FROM_LEADER): Transition(Follower, False),
    (Follower, Event.LEADER_RESIGNED): Transition(Follower, False),
    (Follower, Event.FETCH_TIMED_OUT): Transition(Prospective, False),
    (Leader, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Leader, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.HIGHER),
    (Leader, Event.RESIGNED): Transition(Resigned, False),
    (Resigned, Event.HIGHER_EPOCH_SEEN): Transition(Unattached, True, EpochChange.HIGHER),
    (Resigned, Event.LEADER_DISCOVERED): Transition(Follower, True, EpochChange.HIGHER),
    (Resigned, Event.ELECTION_TIMED_OUT): Transition(Unattached, True, EpochChange.NEXT),
}
"""Every legal transition; any other is a bug of ours (invariant RoleTransitions)."""


class IllegalTransition(RuntimeError):
    """A bug of ours: the role must not change this way.  Nothing has changed."""


def leader_of(role: Role, self_key: ReplicaKey) -> int | None:
    """The id of the leader of the role's epoch, or None if the role does not know it."""
    match role:
        case Leader() | Resigned():
            return self_key.id
        case Candidate():
            return None
        case _:
            return role.leader_id


def vote_of(role: Role, self_key: ReplicaKey) -> ReplicaKey | None:
    """The replica that the node voted for in the role's epoch.  A leader voted for itself."""
    match role:
        case Candidate() | Leader() | Resigned():
            return self_key
        case _:
            return role.voted


def check_transition(old: Role, event: Event, new: Role, *, self_key: ReplicaKey) -> Transition:
    """Check that `event` may turn `old` into `new`, and return the row of the table that allows it.

    Beyond the table, epochs never fall.  Within an epoch a vote is given once, and a known leader stays.  In a new
    epoch a node votes for itself, or for another by VOTE_GRANTED.  It does not follow itself or a leader without an
    address.

    Raises IllegalTransition, which names roles, event and the broken rule.
    """

    def refuse(rule: str) -> IllegalTransition:
        return IllegalTransition(f"{old} -> {new} by {event.name}: {rule}")

    transition = TRANSITIONS.get((type(old), event))
    if transition is None or type(new) is not transition.to:
        expected = "no role" if transition is None else transition.to.__name__
        raise refuse(f"the table leads to {expected}")
    if not transition.epoch.allows(old.epoch, new.epoch):
        raise refuse(f"the epoch must be {transition.epoch.name}")
    same_epoch = new.epoch == old.epoch
    old_vote, new_vote = (vote_of(old, self_key) if same_epoch else None), vote_of(new, self_key)
    if old_vote is not None and new_vote != old_vote:
        raise refuse(f"the vote for {old_vote} in epoch {old.epoch} stays")
    if old_vote is None and new_vote is not None and event not in {Event.VOTE_GRANTED, Event.PRE_VOTE_WON}:
        raise refuse(f"a vote for {new_vote} was never granted")
    old_leader, new_leader = (leader_of(old, self_key) if same_epoch else None), leader_of(new, self_key)
    if old_leader is not None and new_leader != old_leader:
        raise refuse(f"the leader of epoch {old.epoch} is {old_leader}")
    if isinstance(new, Follower) and new.leader_id == self_key.id:
        raise refuse("a node does not follow itself")
    if isinstance(new, Follower) and not len(new.leader_endpoints):
        raise refuse(f"no endpoint of leader {new.leader_id} is known")
    return transition


def after_lost_pre_vote(role: Prospective) -> tuple[Event, Unattached | Follower]:
    """The role after a lost or timed-out pre-vote: Follower of the leader if its address is known, else Unattached."""
    if role.leader_id is not None and len(role.leader_endpoints):
        follower = Follower(
            role.epoch,
            role.leader_id,
            role.leader_endpoints,
            role.voted,
            leader_resigned=role.leader_resigned,
            lost_pre_vote=True,
        )
        return Event.PRE_VOTE_LOST_TO_LEADER, follower
    return Event.PRE_VOTE_LOST, Unattached(role.epoch, role.leader_id, role.voted)


def may_campaign(voters: VoterSet, self_key: ReplicaKey) -> bool:
    """Whether this node may become Prospective: only members do (invariant MembersCampaign)."""
    return voters.is_voter(self_key)


@attrs.frozen
class ElectionState:
    """The content of quorum-state, which an election must not forget over a restart."""

    epoch: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None


def election_state_of(role: Role, self_key: ReplicaKey) -> ElectionState:
    """The stored form of a role.  A leader's vote for itself is implied."""
    leader_id = leader_of(role, self_key)
    voted_key = None if leader_id == self_key.id else vote_of(role, self_key)
    return ElectionState(role.epoch, leader_id, voted_key)


def initial_role(
    election_state: ElectionState | None, log_end_epoch: int, self_key: ReplicaKey, voters: VoterSet
) -> Role:
    """The role in which a node starts, from its stored state and its log.

    1. The log has a higher epoch than the stored state, so that state was lost: Unattached in the log's epoch.
    2. The node was the leader: Resigned in the same epoch, because it may have lost records that it appended
       (invariant RestartedLeaderResigns).
    3. The node knows a leader and its endpoints: Follower.
    4. The node voted for itself, and its voter set still names it: Candidate.
    5. Otherwise: Unattached, with the known leader and vote.  A vote for another incarnation of its id is not a vote
       for itself.
    """
    state = election_state or ElectionState(0)
    if state.epoch < log_end_epoch:
        return Unattached(log_end_epoch)
    if state.leader_id == self_key.id:
        return Resigned(state.epoch)
    voted_for_self = state.voted_key is not None and state.voted_key.names(self_key.id, self_key.directory_id)
    if state.leader_id is not None:
        leader = voters.get(state.leader_id)
        if leader is not None and len(leader.endpoints):
            return Follower(state.epoch, state.leader_id, leader.endpoints, state.voted_key)
    elif voted_for_self and may_campaign(voters, self_key):
        return Candidate(state.epoch)
    return Unattached(state.epoch, state.leader_id, state.voted_key)
