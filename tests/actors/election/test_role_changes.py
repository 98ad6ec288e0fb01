"""Which message makes which role, where it takes more than one rule to say so."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.actors.election.role_changes import Ruling, Situation, judge
from kraft_trio.channels import Reply
from kraft_trio.messages import BeginQuorumEpochReceived, Stamp, TimedOut, VoteReceived, VoteRoundEnded
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.roles import Candidate, Event, Follower, Leader, Prospective, Resigned, Unattached
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.vote import VoteRequest

SELF, LEADER = ReplicaKey(1), ReplicaKey(2)
OLD = Endpoints({"CONTROLLER": Endpoint("old", 9093)})
NEW = Endpoints({"CONTROLLER": Endpoint("new", 9093)})
STAMP = Stamp(3, 1)
NOW = Situation(
    role=Follower(3, LEADER.id, NEW, has_fetched=True),
    stamp=STAMP,
    key=SELF,
    voters=VoterSet((Voter(SELF, OLD), Voter(LEADER, OLD), Voter(ReplicaKey(3), OLD))),
    log_end=OffsetAndEpoch(5, 3),
    successors=(),
    may_campaign=True,
    highest_requested_epoch=10,
)


def begin(told: Endpoints) -> BeginQuorumEpochReceived:
    request = BeginQuorumEpochRequest("cluster", -1, "topic", 0, NO_DIRECTORY_ID, LEADER.id, 3, told)
    return BeginQuorumEpochReceived(request, Reply())


def test_an_older_begin_quorum_epoch_keeps_the_address() -> None:
    """Version 0 tells no endpoints, and the voter set's entry is from before the leader moved."""
    assert judge(NOW, begin(Endpoints())).change is None
    assert judge(NOW, begin(NEW)).change is None


def test_the_leader_s_own_word_moves_the_address() -> None:
    change = judge(NOW, begin(OLD)).change
    assert change is not None
    assert change[1] == Follower(3, LEADER.id, OLD)


def test_a_prospective_goes_back_to_the_address_it_knows() -> None:
    now = attrs.evolve(NOW, role=Prospective(3, LEADER.id, NEW))
    change = judge(now, begin(Endpoints())).change
    assert change is not None
    assert change[1] == Follower(3, LEADER.id, NEW)


def test_the_voter_set_tells_where_an_unknown_leader_is() -> None:
    change = judge(attrs.evolve(NOW, role=Unattached(3)), begin(Endpoints())).change
    assert change is not None
    assert change[1] == Follower(3, LEADER.id, OLD)


def test_a_blank_disk_follows_who_announces_itself_to_the_one_before() -> None:
    """KIP-853 "Disk failure recovery": that is how it finds the leader, although the request was not meant for it."""
    request = BeginQuorumEpochRequest("cluster", SELF.id, "topic", 0, UUID(int=1000), LEADER.id, 4, NEW)
    now = attrs.evolve(NOW, role=Unattached(3), key=ReplicaKey(SELF.id, UUID(int=2000)), voters=VoterSet())
    judgement = judge(now, BeginQuorumEpochReceived(request, Reply()))
    assert judgement.change == (Event.LEADER_DISCOVERED, Follower(4, LEADER.id, NEW))
    assert judgement.ruling == Ruling(Refusal.INVALID_VOTER_KEY)


def test_a_node_that_is_shutting_down_wins_nothing() -> None:
    won = VoteRoundEnded(STAMP, won=True)
    candidate = attrs.evolve(NOW, role=Candidate(3))
    assert judge(candidate, won).change == (Event.ELECTION_WON, Leader(3, 5))
    assert judge(attrs.evolve(candidate, may_campaign=False), won).change is None
    prospective = attrs.evolve(NOW, role=Prospective(3), may_campaign=False)
    for ended in (won, VoteRoundEnded(STAMP, won=False, skip_pre_vote=True)):
        assert judge(prospective, ended).change == (Event.PRE_VOTE_LOST, Unattached(3))


def test_a_resigned_leader_that_is_shutting_down_stays_resigned() -> None:
    resigned = attrs.evolve(NOW, role=Resigned(3, ()))
    assert judge(resigned, TimedOut(STAMP)).change == (Event.ELECTION_TIMED_OUT, Unattached(4))
    assert judge(attrs.evolve(resigned, may_campaign=False), TimedOut(STAMP)).change is None


def test_a_vote_that_is_stored_is_ruled_on_at_once() -> None:
    """Election sends this ruling once the change is stored, and does not judge the request again."""
    request = VoteRequest("cluster", SELF.id, "topic", 0, LEADER, 3, NO_DIRECTORY_ID, 5, 2, pre_vote=False)
    now = attrs.evolve(NOW, role=Unattached(3), log_end=OffsetAndEpoch(5, 2))
    judgement = judge(now, VoteReceived(request, Reply()))
    assert judgement.change == (Event.VOTE_GRANTED, Unattached(3, voted=LEADER))
    assert judgement.ruling is not None
    assert judgement.ruling.vote is not None
    assert (judgement.ruling.vote.granted, judgement.ruling.vote.reason) == (True, "first to ask, log up to date")


def test_a_higher_epoch_is_reached_before_the_vote_is_decided() -> None:
    request = VoteRequest("cluster", SELF.id, "topic", 0, LEADER, 4, NO_DIRECTORY_ID, 5, 3, pre_vote=False)
    judgement = judge(NOW, VoteReceived(request, Reply()))
    assert judgement.change == (Event.HIGHER_EPOCH_SEEN, Unattached(4))
    assert judgement.ruling is None, "the log's end counts only once the epoch nursery has closed (rule R1)"


def asked_by(replica: ReplicaKey, *, pre_vote: bool) -> VoteReceived:
    epoch = 3 if pre_vote else 4
    request = VoteRequest("cluster", -1, "topic", 0, replica, epoch, NO_DIRECTORY_ID, 5, 3, pre_vote)
    return VoteReceived(request, Reply())


DOUBTING = attrs.evolve(NOW, doubts_leader=True)


def test_a_voter_s_pre_vote_makes_a_doubting_witness_give_its_leader_up() -> None:
    change = judge(DOUBTING, asked_by(ReplicaKey(3), pre_vote=True)).change
    assert change == (Event.FETCH_TIMED_OUT, Prospective(3, LEADER.id, NEW))
    ruling = judge(attrs.evolve(DOUBTING, role=change[1]), asked_by(ReplicaKey(3), pre_vote=True)).ruling
    assert ruling is not None
    assert ruling.vote is not None
    assert ruling.vote.granted


def test_nothing_else_does() -> None:
    assert judge(NOW, asked_by(ReplicaKey(3), pre_vote=True)).change is None
    assert judge(DOUBTING, asked_by(ReplicaKey(9), pre_vote=True)).change is None
    removed = attrs.evolve(DOUBTING, key=ReplicaKey(9))
    assert judge(removed, asked_by(ReplicaKey(3), pre_vote=True)).change is None, "only members campaign"
    real = judge(DOUBTING, asked_by(ReplicaKey(3), pre_vote=False)).change
    assert real == (Event.HIGHER_EPOCH_SEEN, Unattached(4))


def test_a_won_pre_vote_makes_no_candidate_of_a_witness_that_others_do_not_need() -> None:
    now = attrs.evolve(NOW, role=Prospective(3), may_lead=False)
    change = judge(now, VoteRoundEnded(STAMP, won=True)).change
    assert change == (Event.PRE_VOTE_LOST, Unattached(3))
    change = judge(attrs.evolve(now, may_lead=True), VoteRoundEnded(STAMP, won=True)).change
    assert change == (Event.PRE_VOTE_WON, Candidate(4))
