"""Which message makes which role, where it takes more than one rule to say so."""

from __future__ import annotations

import attrs

from kraft_trio.actors.role_changes import Situation, judge
from kraft_trio.messages import BeginQuorumEpochReceived, Reply, Stamp, VoteRoundEnded
from kraft_trio.protocol.roles import Candidate, Event, Follower, Leader, Prospective, Unattached
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest

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


def test_a_node_that_is_shutting_down_wins_nothing() -> None:
    won = VoteRoundEnded(STAMP, won=True)
    candidate = attrs.evolve(NOW, role=Candidate(3))
    assert judge(candidate, won).change == (Event.ELECTION_WON, Leader(3, 5))
    assert judge(attrs.evolve(candidate, may_campaign=False), won).change is None
    prospective = attrs.evolve(NOW, role=Prospective(3), may_campaign=False)
    for ended in (won, VoteRoundEnded(STAMP, won=False, skip_pre_vote=True)):
        assert judge(prospective, ended).change == (Event.PRE_VOTE_LOST, Unattached(3))
