"""Grants votes and pre-votes, and counts them (KIP-595 "Vote", KIP-996, KIP-853 "Vote").

Neither side checks membership.  An observer grants votes, and a sender outside our voter set may be in one that we have
not read yet.  Only the candidate counts, and it counts members alone.
"""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet


@attrs.frozen
class VoteFacts:
    """What a Vote request says about its sender."""

    replica: ReplicaKey
    epoch: int
    """The epoch of the election; for a pre-vote the sender's current epoch."""
    log_end: OffsetAndEpoch
    """Exclusive end of the sender's log, and the epoch of the record before it."""
    pre_vote: bool = False


@attrs.frozen
class VoteDecision:
    """The response to a vote request, and the reason."""

    granted: bool
    reason: str
    """For a human reader."""
    voted_role: Unattached | Prospective | None = None
    """The role to take and store by VOTE_GRANTED before the response is sent, or None if nothing changes."""


def must_step_down(role: Role, request_epoch: int) -> bool:
    """Whether a request of that epoch first moves this node to Unattached in it.

    This holds for pre-votes too: their sender is in that epoch, and moving to it promises nothing.
    """
    return request_epoch > role.epoch


def decide_vote(role: Role, request: VoteFacts, log_end: OffsetAndEpoch) -> VoteDecision:
    """Grant or refuse a request in this node's own epoch; `log_end` is this node's.

    Raises ValueError for another epoch.  A lower one is fenced, and for a higher one the caller steps down first.
    """
    if request.epoch != role.epoch:
        raise ValueError(f"vote request in epoch {request.epoch}, decided in epoch {role.epoch}: both must be the same")
    log_reason = f"log behind: mine {log_end}, theirs {request.log_end}"
    log_is_up_to_date = request.log_end.is_at_least_as_up_to_date_as(log_end)
    if request.pre_vote:
        return _decide_pre_vote(role, log_is_up_to_date, log_reason)
    match role:
        case Leader() | Resigned():
            return VoteDecision(False, f"this node was elected in epoch {role.epoch}")
        case Candidate():
            return VoteDecision(False, f"this node voted for itself in epoch {role.epoch}")
        case Follower():
            return VoteDecision(False, f"{role.leader_id} leads epoch {role.epoch}")
        case Unattached() | Prospective():
            return _decide_real_vote(role, request, log_is_up_to_date, log_reason)


def _decide_real_vote(
    role: Unattached | Prospective, request: VoteFacts, log_is_up_to_date: bool, log_reason: str
) -> VoteDecision:
    if role.voted is not None:
        if role.voted == request.replica:
            return VoteDecision(True, f"already voted for {role.voted} in epoch {role.epoch}")
        if role.voted != ReplicaKey(request.replica.id, NO_DIRECTORY_ID):
            return VoteDecision(False, f"already voted for {role.voted} in epoch {role.epoch}")
        # quorum-state of kraft.version 0 kept only the id: this may be another incarnation, so ask for its log again.
        if not log_is_up_to_date:
            return VoteDecision(False, log_reason)
        return VoteDecision(True, f"already voted for some incarnation of {role.voted} in epoch {role.epoch}")
    if role.leader_id is not None:
        return VoteDecision(False, f"{role.leader_id} leads epoch {role.epoch}")
    if not log_is_up_to_date:
        return VoteDecision(False, log_reason)
    return VoteDecision(True, "first to ask, log up to date", attrs.evolve(role, voted=request.replica))


def _decide_pre_vote(role: Role, log_is_up_to_date: bool, log_reason: str) -> VoteDecision:
    if isinstance(role, Leader):
        return VoteDecision(False, f"this node leads epoch {role.epoch}")
    if isinstance(role, Follower) and role.has_fetched and not role.leader_resigned:
        return VoteDecision(False, f"fetches from {role.leader_id}, which leads epoch {role.epoch}")
    if not log_is_up_to_date:
        return VoteDecision(False, log_reason)
    return VoteDecision(True, "log up to date, and no leader that answers")


def vote_request_error(role_epoch: int, request: VoteFacts) -> Refusal | None:
    """The partition-level error of a vote request, or None if it can be decided.

    INVALID_REQUEST for a negative id, and for a log end that the sender cannot have: negative, in the epoch of the
    election or, for a pre-vote, above the sender's epoch.  FENCED_LEADER_EPOCH for an older epoch.
    """
    last_epoch = request.log_end.epoch
    highest_log_epoch = request.epoch if request.pre_vote else request.epoch - 1
    if request.log_end.offset < 0 or last_epoch < 0 or last_epoch > highest_log_epoch:
        return Refusal.INVALID_REQUEST
    if request.epoch < role_epoch:
        return Refusal.FENCED_LEADER_EPOCH
    if request.replica.id < 0:
        return Refusal.INVALID_REQUEST
    return None


def voter_key_error(self_key: ReplicaKey, voter_id: int, voter_directory_id: UUID) -> Refusal | None:
    """INVALID_VOTER_KEY if a Vote or BeginQuorumEpoch was meant for another replica or another disk of this one.

    Call it after the request's epoch transition.  A negative id means that the sender did not say.  An unknown
    directory id matches any.
    """
    if voter_id < 0 or self_key.names(voter_id, voter_directory_id):
        return None
    return Refusal.INVALID_VOTER_KEY


@attrs.frozen
class VoteTally:
    """The responses to one round of votes or pre-votes.  The caller adds the candidate's own vote.

    Answers of replicas outside `voters`, and of other incarnations, are kept but not counted (invariant
    DeadIncarnations).
    """

    voters: VoterSet
    granted: frozenset[ReplicaKey] = frozenset()
    rejected: frozenset[ReplicaKey] = frozenset()

    def granted_by(self, key: ReplicaKey) -> VoteTally:
        """The tally after that replica granted its vote; a later response replaces an earlier one."""
        return attrs.evolve(self, granted=self.granted | {key}, rejected=self.rejected - {key})

    def rejected_by(self, key: ReplicaKey) -> VoteTally:
        """The tally after that replica refused its vote; a later response replaces an earlier one."""
        return attrs.evolve(self, granted=self.granted - {key}, rejected=self.rejected | {key})

    @property
    def is_won(self) -> bool:
        return self.voters.is_majority(self._members(self.granted))

    @property
    def is_lost(self) -> bool:
        """Whether the remaining voters cannot make a majority."""
        return len(self.voters) - len(self._members(self.rejected)) < self.voters.majority

    @property
    def unanswered(self) -> tuple[ReplicaKey, ...]:
        """The voters that have not answered yet, in the order of the set."""
        answered = self._members(self.granted | self.rejected)
        return tuple(voter.key for voter in self.voters if voter.id not in answered)

    def _members(self, keys: frozenset[ReplicaKey]) -> frozenset[int]:
        return frozenset(key.id for key in keys if self.voters.is_voter(key))
