"""Who gets a vote or pre-vote, which requests are errors, and when votes are enough."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import at, endpoints_of, key, static_voters, voters

from kraft_trio.protocol.roles import (
    Candidate,
    Event,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.protocol.votes import (
    VoteFacts,
    VoteTally,
    decide_vote,
    must_step_down,
    vote_request_error,
    voter_key_error,
)

SELF = key(1)
MINE = at("12@3")
NEWER, EQUAL, SHORTER, OLDER_EPOCH = at("1@4"), at("12@3"), at("11@3"), at("99@2")
FETCHING = Follower(5, 2, endpoints_of(2), has_fetched=True)


@pytest.mark.parametrize(
    ("role", "log_end", "granted", "reason"),
    [
        (Unattached(5), NEWER, True, "first to ask"),
        (Unattached(5), EQUAL, True, "first to ask"),
        (Unattached(5), SHORTER, False, "log behind: mine 12@3, theirs 11@3"),
        (Unattached(5), OLDER_EPOCH, False, "log behind: mine 12@3, theirs 99@2"),
        (Unattached(5, leader_id=2), NEWER, False, "2 leads epoch 5"),
        (Unattached(5, leader_id=3), NEWER, False, "3 leads epoch 5"),
        (Unattached(5, voted=key(3)), SHORTER, True, "already voted for 3-"),
        (Unattached(5, 2, voted=key(3)), NEWER, True, "already voted for 3-"),
        (Unattached(5, voted=key(2)), NEWER, False, "already voted for 2-"),
        (Unattached(5, voted=key(3, "b")), NEWER, False, "already voted for 3-"),
        (Unattached(5, voted=key(3, "?")), EQUAL, True, "already voted for some incarnation of 3"),
        (Unattached(5, voted=key(3, "?")), SHORTER, False, "log behind"),
        (Unattached(5, voted=key(2, "?")), NEWER, False, "already voted for 2"),
        (Prospective(5), EQUAL, True, "first to ask"),
        (Prospective(5), SHORTER, False, "log behind"),
        (Prospective(5, leader_id=2), NEWER, False, "2 leads epoch 5"),
        (Prospective(5, voted=SELF), NEWER, False, "already voted for 1-"),
        (Prospective(5, voted=key(3)), SHORTER, True, "already voted for 3-"),
        (Candidate(5), NEWER, False, "voted for itself in epoch 5"),
        (Leader(5, 10), NEWER, False, "was elected in epoch 5"),
        (Resigned(5), NEWER, False, "was elected in epoch 5"),
        (Follower(5, 2, endpoints_of(2)), NEWER, False, "2 leads epoch 5"),
        (Follower(5, 3, endpoints_of(3), voted=key(3)), NEWER, False, "3 leads epoch 5"),
    ],
    ids=str,
)
def test_real_vote_for_3(role: Role, log_end: object, granted: bool, reason: str) -> None:
    decision = decide_vote(role, VoteFacts(key(3), 5, log_end), MINE)
    assert decision.granted is granted
    assert reason in decision.reason


@pytest.mark.parametrize("role", [Unattached(5), Prospective(5)], ids=str)
def test_a_new_vote_is_durable_and_a_repeat_changes_nothing(role: Unattached | Prospective) -> None:
    request = VoteFacts(key(3), 5, EQUAL)
    decision = decide_vote(role, request, MINE)
    assert decision.voted_role == attrs.evolve(role, voted=key(3))
    assert check_transition(role, Event.VOTE_GRANTED, decision.voted_role, self_key=SELF).durable
    again = decide_vote(decision.voted_role, request, MINE)
    assert (again.granted, again.voted_role) == (True, None)
    refused = decide_vote(decision.voted_role, VoteFacts(key(2), 5, NEWER), MINE)
    assert (refused.granted, refused.voted_role) == (False, None)


@pytest.mark.parametrize(
    ("role", "log_end", "granted", "reason"),
    [
        (Unattached(5), EQUAL, True, "log up to date"),
        (Unattached(5), SHORTER, False, "log behind: mine 12@3, theirs 11@3"),
        (Unattached(5, 2, voted=key(2)), EQUAL, True, "log up to date"),
        (Prospective(5, voted=SELF), EQUAL, True, "log up to date"),
        (Prospective(5), OLDER_EPOCH, False, "log behind"),
        (Candidate(5), EQUAL, True, "log up to date"),
        (Candidate(5), SHORTER, False, "log behind"),
        (Resigned(5), EQUAL, True, "log up to date"),
        (Resigned(5), SHORTER, False, "log behind"),
        (Leader(5, 10), NEWER, False, "this node leads epoch 5"),
        (attrs.evolve(FETCHING, has_fetched=False), EQUAL, True, "log up to date"),
        (attrs.evolve(FETCHING, has_fetched=False), SHORTER, False, "log behind"),
        (Follower(5, 2, endpoints_of(2)), EQUAL, True, "log up to date"),
        (FETCHING, NEWER, False, "fetches from 2, which leads epoch 5"),
        (attrs.evolve(FETCHING, leader_resigned=True), EQUAL, True, "log up to date"),
        (attrs.evolve(FETCHING, leader_resigned=True), SHORTER, False, "log behind"),
    ],
    ids=str,
)
def test_pre_vote_for_3_changes_nothing(role: Role, log_end: object, granted: bool, reason: str) -> None:
    decision = decide_vote(role, VoteFacts(key(3), 5, log_end, pre_vote=True), MINE)
    assert decision.granted is granted
    assert reason in decision.reason
    assert decision.voted_role is None


@pytest.mark.parametrize("epoch", [4, 6])
def test_a_vote_is_only_decided_in_the_epoch_it_is_for(epoch: int) -> None:
    with pytest.raises(ValueError, match=f"vote request in epoch {epoch}, decided in epoch 5"):
        decide_vote(Unattached(5), VoteFacts(key(3), epoch, NEWER), MINE)
    assert must_step_down(Unattached(5), epoch) is (epoch == 6)
    assert not must_step_down(Leader(5, 0), 5)


@pytest.mark.parametrize(
    ("request_facts", "error"),
    [
        (VoteFacts(key(3), 5, at("10@4")), None),
        (VoteFacts(key(3), 6, at("10@4")), None),
        (VoteFacts(key(0), 5, at("10@4")), None),
        (VoteFacts(key(3), 5, at("0@0")), None),
        (VoteFacts(key(3), 5, at("10@5")), "INVALID_REQUEST"),
        (VoteFacts(key(3), 5, at("10@6")), "INVALID_REQUEST"),
        (VoteFacts(key(3), 5, at("10@5"), pre_vote=True), None),
        (VoteFacts(key(3), 5, at("10@6"), pre_vote=True), "INVALID_REQUEST"),
        (VoteFacts(key(3), 5, at("-1@4")), "INVALID_REQUEST"),
        (VoteFacts(key(3), 5, at("0@-1")), "INVALID_REQUEST"),
        (VoteFacts(ReplicaKey(-1), 5, at("10@4")), "INVALID_REQUEST"),
        (VoteFacts(key(3), 4, at("10@3")), "FENCED_LEADER_EPOCH"),
        (VoteFacts(key(3), 4, at("10@4"), pre_vote=True), "FENCED_LEADER_EPOCH"),
        (VoteFacts(key(3), 4, at("10@4")), "INVALID_REQUEST"),
        (VoteFacts(ReplicaKey(-1), 4, at("10@3")), "FENCED_LEADER_EPOCH"),
    ],
    ids=str,
)
def test_vote_request_errors_in_epoch_5(request_facts: VoteFacts, error: str | None) -> None:
    assert vote_request_error(5, request_facts) == error


@pytest.mark.parametrize(
    ("meant_for", "error"),
    [
        (key(1), None),
        (key(1, "?"), None),
        (ReplicaKey(-1), None),
        (key(1, "b"), "INVALID_VOTER_KEY"),
        (key(2), "INVALID_VOTER_KEY"),
        (key(0), "INVALID_VOTER_KEY"),
        (key(2, "?"), "INVALID_VOTER_KEY"),
    ],
    ids=str,
)
def test_a_request_meant_for_another_replica_or_disk(meant_for: ReplicaKey, error: str | None) -> None:
    assert voter_key_error(SELF, meant_for.id, meant_for.directory_id) == error


@pytest.mark.parametrize(
    ("members", "granted", "rejected", "won", "lost"),
    [
        (voters(1), {key(1)}, set(), True, False),
        (voters(1, 2), {key(1)}, set(), False, False),
        (voters(1, 2), {key(1)}, {key(2)}, False, True),
        (voters(1, 2), {key(1), key(2)}, set(), True, False),
        (voters(1, 2, 3), {key(1)}, {key(2)}, False, False),
        (voters(1, 2, 3), {key(1)}, {key(2), key(3)}, False, True),
        (voters(1, 2, 3), {key(1), key(3)}, {key(2)}, True, False),
        (voters(1, 2, 3, 4), {key(1), key(2)}, set(), False, False),
        (voters(1, 2, 3, 4), {key(1), key(2)}, {key(3), key(4)}, False, True),
        (voters(1, 2, 3), {key(1), key(7)}, set(), False, False),
        (voters(1, 2, 3), {key(1), key(2, "b")}, set(), False, False),
        (voters(1, 2, 3), {key(1), key(2, "?")}, set(), False, False),
        (voters(1, 2, 3), {key(1)}, {key(2, "b"), key(3, "b"), key(8)}, False, False),
        (static_voters(1, 2, 3), {key(1), key(2)}, set(), True, False),
        (static_voters(1, 2, 3), {key(2), key(2, "b")}, set(), False, False),
        (VoterSet(), {key(1)}, set(), False, True),
    ],
    ids=lambda value: "-".join(sorted(str(key) for key in value)) or "none" if isinstance(value, set) else str(value),
)
def test_tally(members: VoterSet, granted: set[ReplicaKey], rejected: set[ReplicaKey], won: bool, lost: bool) -> None:
    tally = VoteTally(members, frozenset(granted), frozenset(rejected))
    assert (tally.is_won, tally.is_lost) == (won, lost)


def test_later_answers_replace_earlier_ones() -> None:
    tally = VoteTally(voters(1, 2, 3)).granted_by(key(1)).rejected_by(key(2))
    assert tally.unanswered == (key(3),)
    changed = tally.granted_by(key(2))
    assert (changed.is_won, changed.granted, changed.rejected) == (True, {key(1), key(2)}, frozenset())
    back = changed.rejected_by(key(2)).rejected_by(key(2))
    assert (back.is_won, back.granted, back.rejected) == (False, {key(1)}, {key(2)})


def test_another_incarnation_has_not_answered_for_the_voter() -> None:
    assert VoteTally(voters(1, 2)).rejected_by(key(2, "b")).unanswered == (key(1), key(2))


@given(st.integers(1, 6), st.sets(st.tuples(st.integers(0, 7), st.sampled_from("ab"))), st.sets(st.integers(0, 7)))
def test_more_than_half_win_a_tally_and_it_is_never_both(
    size: int, granting: set[tuple[int, str]], refusing: set[int]
) -> None:
    members = voters(*range(size))
    granted = frozenset(key(*each) for each in granting)
    tally = VoteTally(members, granted, frozenset(key(id) for id in refusing) - granted)
    assert tally.is_won == (2 * sum(1 for voter in members if voter.key in granted) > size)
    assert not (tally.is_won and tally.is_lost)
    decided_for = tally
    for voter_key in tally.unanswered:
        decided_for = decided_for.granted_by(voter_key)
    assert decided_for.is_won is not tally.is_lost
