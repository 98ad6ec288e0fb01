"""Judges the messages of Election: which message leads to which role, and what the sender of a request is told.

`judge` is a pure function of what Election knows.  If the role must change, Election closes the epoch nursery and
judges the message again, because the log's end may have moved until then (rule R1).
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.messages import (
    BeginQuorumEpochReceived,
    ElectionMessage,
    EndQuorumEpochReceived,
    LeaderAnsweredAt,
    LeaderHeardOf,
    LeadershipLost,
    ShutDown,
    Stamp,
    TimedOut,
    VoteReceived,
    VoteRoundEnded,
)
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.quorum_epoch import (
    BecomeFollower,
    BecomeUnattached,
    Fenced,
    InconsistentLeader,
    InvalidRequest,
    LeaderResigned,
    TooFarAhead,
    begin_quorum_epoch,
    end_quorum_epoch,
    find_leader_at,
    learn_leader,
    with_first,
)
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.roles import (
    Candidate,
    Event,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    after_lost_pre_vote,
    leader_of,
    may_campaign,
    vote_of,
)
from kraft_trio.protocol.types import Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.protocol.votes import (
    VoteDecision,
    VoteFacts,
    decide_vote,
    must_step_down,
    vote_request_error,
    voter_key_error,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.vote import VoteRequest


@attrs.frozen
class Situation:
    """The facts from which a message is judged."""

    role: Role
    stamp: Stamp
    key: ReplicaKey
    voters: VoterSet
    log_end: OffsetAndEpoch
    successors: tuple[ReplicaKey, ...]
    """The successors that this node would name if it resigned now."""
    may_campaign: bool
    """False while shutting down."""
    highest_requested_epoch: int
    """The highest epoch (inclusive) that a request may move this node to now (`protocol.epoch_limits`)."""
    may_lead: bool = True
    """False for a witness while others may win (`protocol.witness`)."""
    doubts_leader: bool = False
    """Whether a pre-vote of another voter makes this node give up the leader that it follows."""
    previous_voters: VoterSet = VoterSet()
    """The set before `voters`, or an empty set if `voters` is known to be committed."""
    listener: str = ""
    """The name of the listener at which this node would fetch from a leader."""
    hears_leader: bool = False
    """Whether this node follows a leader that has answered it, or leads a majority that has fetched, not long ago."""

    @property
    def may_stand(self) -> bool:
        """Whether a won pre-vote makes this node a candidate."""
        return self.may_campaign and self.may_lead

    @property
    def is_needed(self) -> bool:
        """Whether this node may have to lead, because a set that may be in force names it.

        The set before the newest counts too.  A leader that has appended its own removal may have the only log that is
        long enough to be elected, so that no other node could commit the removal (Ongaro's thesis, 4.2.2).
        """
        return any(may_campaign(voters, self.key) for voters in (self.voters, self.previous_voters))

    def is_strange(self, leader_id: int, told: Endpoints) -> bool:
        """Whether a leader's request names an address that nothing but the request itself vouches for.

        A leader that has moved names one, too.  So this matters only while another leader, or the same one elsewhere,
        is heard: there is no hurry then, and what that leader answers will name its successor.
        """
        endpoint, voter = told.get(self.listener), self.voters.get(leader_id)
        known = [role.leader_endpoints for role in (self.role,) if isinstance(role, Follower | Prospective)]
        if leader_of(self.role, self.key) != leader_id:
            known.clear()
        known += [] if voter is None else [voter.endpoints]
        return endpoint is not None and all(endpoints.get(self.listener) != endpoint for endpoints in known)

    def endpoints_of(self, leader_id: int, epoch: int, told: Endpoints) -> Endpoints:
        """The endpoints of a leader: from the message, else from the role, else from the voter set.

        The role may know better than the set.  BeginQuorumEpoch of an older peer names no endpoints, and the entry in
        the set may be from before the leader moved.
        """
        role, voter = self.role, self.voters.get(leader_id)
        if len(told):
            return told
        known = role.leader_endpoints if isinstance(role, Follower | Prospective) else Endpoints()
        if len(known) and (leader_of(role, self.key), role.epoch) == (leader_id, epoch):
            return known
        return voter.endpoints if voter is not None else told


Change = tuple[Event, Role]


@attrs.frozen
class Ruling:
    """What a sender of Vote, BeginQuorumEpoch or EndQuorumEpoch is told."""

    error: Refusal | None = None
    """The partition-level error, or None."""
    vote: VoteDecision | None = None
    """The decision on a Vote."""
    is_too_far_ahead: bool = False
    """Whether the request is refused because of its epoch (`protocol.epoch_limits`)."""
    is_strange: bool = False
    """Whether the request is refused because of the address that it names."""


STRANGE: Final = Ruling(Refusal.UNKNOWN_LEADER_EPOCH, is_strange=True)
"""Kafka's raft client ignores that error; INVALID_REQUEST would stop it
(docs/reference/kafka.md#errors-that-stop-a-java-peer).
"""


@attrs.frozen
class Judgement:
    """What a message does to the role, and what its sender is told."""

    change: Change | None = None
    """The next role, and the event in the transition table; None if the role stays."""
    ruling: Ruling | None = None
    """The answer to a request, final once `change` is stored.  None if the next role has to judge the request again,
    and for messages that nobody waits for."""


def judge(now: Situation, message: ElectionMessage) -> Judgement:
    """Judge a message in the current role.

    A message may take several steps: judge it again after each change that comes without a ruling.
    """
    match message:
        case VoteReceived(request=request):
            return _judge_vote(now, request)
        case BeginQuorumEpochReceived(request=request):
            return _judge_begin(now, request)
        case EndQuorumEpochReceived(request=request):
            return _judge_end(now, request)
        case LeaderHeardOf(epoch=epoch, leader_id=leader_id, leader_endpoints=told):
            endpoints = now.endpoints_of(leader_id, epoch, told) if leader_id is not None else Endpoints()
            return Judgement(_learned(now, learn_leader(now.role, now.key, leader_id, epoch, endpoints)))
        case LeaderAnsweredAt(stamp=stamp, leader_endpoints=told) if stamp == now.stamp:
            found = find_leader_at(now.role, told)
            return Judgement(None if found is None else (Event.LEADER_MOVED, found))
        case VoteRoundEnded(stamp=stamp) if stamp == now.stamp:
            return Judgement(_on_vote_round_ended(now, message))
        case TimedOut(stamp=stamp) if stamp == now.stamp:
            return Judgement(_on_timeout(now))
        case LeadershipLost(stamp=stamp, successor=first) if stamp == now.stamp and isinstance(now.role, Leader):
            return Judgement((Event.RESIGNED, Resigned(now.role.epoch, with_first(now.successors, first))))
        case ShutDown() if isinstance(now.role, Leader):
            return Judgement((Event.RESIGNED, Resigned(now.role.epoch, now.successors)))
        case _:
            return Judgement()


def _judge_vote(now: Situation, request: VoteRequest) -> Judgement:
    """A request in a higher epoch first moves this node there (KIP-595 "Vote"), if it may move it so far."""
    facts = VoteFacts(
        replica=request.replica,
        epoch=request.replica_epoch,
        log_end=OffsetAndEpoch(request.last_offset, request.last_offset_epoch),
        pre_vote=request.pre_vote,
    )
    error = vote_request_error(now.role.epoch, facts)
    is_too_far_ahead = False
    if error is None and must_step_down(now.role, facts.epoch):
        if facts.epoch <= now.highest_requested_epoch:
            return Judgement((Event.HIGHER_EPOCH_SEEN, Unattached(facts.epoch)))
        error, is_too_far_ahead = Refusal.UNKNOWN_LEADER_EPOCH, True
    error = error or voter_key_error(now.key, request.voter_id, request.voter_directory_id)
    if error is not None:
        return Judgement(ruling=Ruling(error, VoteDecision(False, str(error)), is_too_far_ahead))
    is_of_voter = facts.pre_vote and now.voters.is_voter(facts.replica)
    if is_of_voter and now.doubts_leader and now.may_campaign and now.is_needed and isinstance(now.role, Follower):
        return Judgement((Event.FETCH_TIMED_OUT, _without_leader(now.role)))
    decision = decide_vote(now.role, facts, now.log_end)
    change = None if decision.voted_role is None else (Event.VOTE_GRANTED, decision.voted_role)
    return Judgement(change, Ruling(vote=decision))


def _judge_begin(now: Situation, request: BeginQuorumEpochRequest) -> Judgement:
    endpoints = now.endpoints_of(request.leader_id, request.leader_epoch, request.leader_endpoints)
    outcome = begin_quorum_epoch(
        now.role, now.key, request.leader_id, request.leader_epoch, endpoints, now.highest_requested_epoch
    )
    if isinstance(outcome, BecomeFollower) and now.hears_leader and now.is_strange(request.leader_id, endpoints):
        return Judgement(ruling=STRANGE)
    error = _error_of(outcome) or voter_key_error(now.key, request.voter_id, request.voter_directory_id)
    return Judgement(_learned(now, outcome), Ruling(error, is_too_far_ahead=isinstance(outcome, TooFarAhead)))


def _judge_end(now: Situation, request: EndQuorumEpochRequest) -> Judgement:
    endpoints = now.endpoints_of(request.leader_id, request.leader_epoch, request.leader_endpoints)
    outcome = end_quorum_epoch(
        now.role, now.key, request.leader_id, request.leader_epoch, endpoints, now.highest_requested_epoch
    )
    learned = outcome.learned if isinstance(outcome, LeaderResigned) else None
    if isinstance(learned, BecomeFollower) and now.hears_leader and now.is_strange(request.leader_id, endpoints):
        return Judgement(ruling=STRANGE)
    change = _learned(now, learned)
    return Judgement(change, Ruling(_error_of(outcome), is_too_far_ahead=isinstance(outcome, TooFarAhead)))


def _error_of(outcome: object) -> Refusal | None:
    match outcome:
        case Fenced():
            return Refusal.FENCED_LEADER_EPOCH
        case TooFarAhead():
            return Refusal.UNKNOWN_LEADER_EPOCH
        case InvalidRequest() | InconsistentLeader():
            return Refusal.INVALID_REQUEST
        case _:
            return None


def _learned(now: Situation, outcome: object) -> Change | None:
    match outcome:
        case BecomeFollower(epoch=epoch, leader_id=leader_id, leader_endpoints=endpoints):
            voted = vote_of(now.role, now.key) if epoch == now.role.epoch else None
            return Event.LEADER_DISCOVERED, Follower(epoch, leader_id, endpoints, voted)
        case BecomeUnattached(epoch=epoch, leader_id=leader_id):
            return Event.HIGHER_EPOCH_SEEN, Unattached(epoch, leader_id)
        case _:
            return None


def _on_vote_round_ended(now: Situation, ended: VoteRoundEnded) -> Change | None:
    match now.role:
        case Prospective() if now.may_stand and (ended.won or ended.skip_pre_vote) and now.role.epoch < MAX_EPOCH:
            return Event.PRE_VOTE_WON, Candidate(now.role.epoch + 1)
        case Prospective():
            return after_lost_pre_vote(now.role)
        # A node that is shutting down could not announce the end of an epoch that it wins.
        case Candidate() if now.may_campaign and ended.won:
            return Event.ELECTION_WON, Leader(now.role.epoch, now.log_end.offset, ended.granting)
        case _:
            return None


def _without_leader(role: Follower) -> Prospective:
    return Prospective(
        role.epoch, role.leader_id, role.leader_endpoints, role.voted, leader_resigned=role.leader_resigned
    )


def _on_timeout(now: Situation) -> Change | None:
    role = now.role
    campaigns = now.may_campaign and now.is_needed and role.epoch < MAX_EPOCH
    match role:
        case Unattached() if campaigns:
            voter = now.voters.get(role.leader_id) if role.leader_id is not None else None
            endpoints = voter.endpoints if voter is not None else Endpoints()
            return Event.ELECTION_TIMED_OUT, Prospective(role.epoch, role.leader_id, endpoints, role.voted)
        case Follower() if campaigns:
            return Event.FETCH_TIMED_OUT, _without_leader(role)
        case Prospective():
            return after_lost_pre_vote(role)
        case Candidate():
            return Event.ELECTION_TIMED_OUT, Prospective(role.epoch, voted=now.key)
        case Resigned() if now.may_campaign and role.epoch < MAX_EPOCH:
            # A node that shuts down tells the voters of its resignation until its grace is over.
            return Event.ELECTION_TIMED_OUT, Unattached(role.epoch + 1)
        case _:
            return None
