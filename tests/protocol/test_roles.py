"""The transition table, what no event may change, what is stored, and what a node starts as."""

from __future__ import annotations

import itertools

import attrs
import pytest
from quorum_builders import endpoints_of, key, voters

from kraft_trio.protocol.roles import (
    TRANSITIONS,
    Candidate,
    ElectionState,
    EpochChange,
    Event,
    Follower,
    IllegalTransition,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    after_lost_pre_vote,
    check_transition,
    election_state_of,
    initial_role,
    leader_of,
    may_campaign,
    vote_of,
)
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet

SELF = key(1)
AT_2 = endpoints_of(2)
NO_ENDPOINTS = Endpoints()


def allowed(old: Role, event: Event, new: Role) -> bool:
    """Whether the node with key SELF may go from `old` to `new`."""
    try:
        check_transition(old, event, new, self_key=SELF)
    except IllegalTransition:
        return False
    return True


LEGAL: list[tuple[Role, Event, Role, bool]] = [
    # anything that names a higher epoch
    (Unattached(4, 2, key(3)), Event.HIGHER_EPOCH_SEEN, Unattached(5), True),
    (Prospective(4, voted=key(3)), Event.HIGHER_EPOCH_SEEN, Unattached(6, leader_id=3), True),
    (Candidate(4), Event.HIGHER_EPOCH_SEEN, Unattached(5), True),
    (Follower(4, 2, AT_2, key(3)), Event.HIGHER_EPOCH_SEEN, Unattached(5), True),
    (Leader(4, 10), Event.HIGHER_EPOCH_SEEN, Unattached(5), True),
    (Resigned(4), Event.HIGHER_EPOCH_SEEN, Unattached(5), True),
    # a leader named
    (Unattached(4), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2), True),
    (Unattached(4, voted=key(3)), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2, key(3)), True),
    (Unattached(4), Event.LEADER_DISCOVERED, Follower(7, 2, AT_2), True),
    (Prospective(4, voted=SELF), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2, SELF), True),
    (Candidate(4), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2, SELF), True),
    (Follower(4, 2, AT_2), Event.LEADER_DISCOVERED, Follower(4, 2, endpoints_of(9)), True),
    (Follower(4, 2, AT_2), Event.LEADER_DISCOVERED, Follower(5, 3, endpoints_of(3)), True),
    (Leader(4, 10), Event.LEADER_DISCOVERED, Follower(5, 2, AT_2), True),
    (Resigned(4), Event.LEADER_DISCOVERED, Follower(5, 2, AT_2), True),
    # votes
    (Unattached(4), Event.VOTE_GRANTED, Unattached(4, voted=key(2)), True),
    (Prospective(4), Event.VOTE_GRANTED, Prospective(4, voted=key(2)), True),
    # elections
    (Unattached(4, 2, key(3)), Event.ELECTION_TIMED_OUT, Prospective(4, 2, NO_ENDPOINTS, key(3)), False),
    (Follower(4, 2, AT_2, key(3)), Event.FETCH_TIMED_OUT, Prospective(4, 2, AT_2, key(3)), False),
    (Prospective(4, 2, AT_2, key(3)), Event.PRE_VOTE_WON, Candidate(5), True),
    (Prospective(4, 2, NO_ENDPOINTS, key(3)), Event.PRE_VOTE_LOST, Unattached(4, 2, key(3)), True),
    (Prospective(4, 2, AT_2, key(3)), Event.PRE_VOTE_LOST_TO_LEADER, Follower(4, 2, AT_2, key(3)), True),
    (Candidate(4), Event.ELECTION_WON, Leader(4, 10), True),
    (Candidate(4), Event.ELECTION_TIMED_OUT, Prospective(4, voted=SELF), False),
    # a follower's bookkeeping, and the end of a leadership
    (Prospective(4, 2, AT_2), Event.LEADER_MOVED, Prospective(4, 2, endpoints_of(9)), False),
    (Follower(4, 2, AT_2), Event.LEADER_MOVED, Follower(4, 2, endpoints_of(9)), False),
    (Follower(4, 2, AT_2), Event.FETCHED_FROM_LEADER, Follower(4, 2, AT_2, has_fetched=True), False),
    (Follower(4, 2, AT_2), Event.LEADER_RESIGNED, Follower(4, 2, AT_2, leader_resigned=True), False),
    (Leader(4, 10), Event.RESIGNED, Resigned(4, (key(2),)), False),
    (Resigned(4), Event.ELECTION_TIMED_OUT, Unattached(5), True),
]


@pytest.mark.parametrize(("old", "event", "new", "durable"), LEGAL, ids=str)
def test_legal_transitions_and_whether_they_are_stored_first(old: Role, event: Event, new: Role, durable: bool) -> None:
    assert check_transition(old, event, new, self_key=SELF).durable is durable


def test_every_row_of_the_table_has_an_example_and_is_complete() -> None:
    assert {(type(old), event) for old, event, _, _ in LEGAL} == set(TRANSITIONS)
    roles: list[Role] = [
        Unattached(4),
        Prospective(4),
        Candidate(4),
        Follower(4, 2, AT_2),
        Leader(4, 10),
        Resigned(4),
    ]
    for old, event in itertools.product(roles, Event):
        row = TRANSITIONS.get((type(old), event))
        for new, epoch in itertools.product(roles, (4, 5)):
            if row is None or type(new) is not row.to:
                assert not allowed(old, event, attrs.evolve(new, epoch=epoch))


@pytest.mark.parametrize(
    ("change", "same", "one_up", "two_up", "down"),
    [
        (EpochChange.SAME, True, False, False, False),
        (EpochChange.NEXT, False, True, False, False),
        (EpochChange.HIGHER, False, True, True, False),
        (EpochChange.SAME_OR_HIGHER, True, True, True, False),
    ],
)
def test_epoch_changes(change: EpochChange, same: bool, one_up: bool, two_up: bool, down: bool) -> None:
    assert [change.allows(4, epoch) for epoch in (4, 5, 6, 3)] == [same, one_up, two_up, down]


@pytest.mark.parametrize(
    ("old", "event", "new", "rule"),
    [
        (Unattached(4), Event.HIGHER_EPOCH_SEEN, Unattached(3), "the epoch must be HIGHER"),
        (Unattached(4), Event.HIGHER_EPOCH_SEEN, Unattached(4), "the epoch must be HIGHER"),
        (Follower(4, 2, AT_2), Event.LEADER_DISCOVERED, Follower(3, 3, AT_2), "the epoch must be SAME_OR_HIGHER"),
        (Prospective(4), Event.PRE_VOTE_WON, Candidate(4), "the epoch must be NEXT"),
        (Prospective(4), Event.PRE_VOTE_WON, Candidate(6), "the epoch must be NEXT"),
        (Resigned(4), Event.ELECTION_TIMED_OUT, Unattached(4), "the epoch must be NEXT"),
        (Leader(4, 10), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2), "the epoch must be HIGHER"),
        (Resigned(4), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2), "the epoch must be HIGHER"),
        (Leader(4, 10), Event.RESIGNED, Resigned(5), "the epoch must be SAME"),
        (Candidate(4), Event.ELECTION_WON, Leader(5, 10), "the epoch must be SAME"),
        (Unattached(4, voted=key(2)), Event.VOTE_GRANTED, Unattached(4, voted=key(3)), "the vote for 2-"),
        (Unattached(4, voted=key(2)), Event.VOTE_GRANTED, Unattached(4, voted=key(2, "b")), "the vote for 2-"),
        (Unattached(4, voted=key(2)), Event.ELECTION_TIMED_OUT, Prospective(4), "the vote for 2-"),
        (Unattached(4, voted=key(3)), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2), "the vote for 3-"),
        (Candidate(4), Event.LEADER_DISCOVERED, Follower(4, 2, AT_2), "the vote for 1-"),
        (Candidate(4), Event.ELECTION_TIMED_OUT, Prospective(4), "the vote for 1-"),
        (Unattached(4), Event.ELECTION_TIMED_OUT, Prospective(4, voted=key(2)), "was never granted"),
        (Unattached(4), Event.HIGHER_EPOCH_SEEN, Unattached(5, voted=key(2)), "was never granted"),
        (Candidate(4), Event.LEADER_DISCOVERED, Follower(5, 2, AT_2, SELF), "was never granted"),
        (Unattached(4, 2), Event.LEADER_DISCOVERED, Follower(4, 3, AT_2), "the leader of epoch 4 is 2"),
        (Follower(4, 2, AT_2), Event.LEADER_DISCOVERED, Follower(4, 3, AT_2), "the leader of epoch 4 is 2"),
        (Follower(4, 2, AT_2), Event.FETCH_TIMED_OUT, Prospective(4), "the leader of epoch 4 is 2"),
        (Prospective(4, 2), Event.PRE_VOTE_LOST, Unattached(4), "the leader of epoch 4 is 2"),
        (Unattached(4), Event.LEADER_DISCOVERED, Follower(5, 1, AT_2), "does not follow itself"),
        (Unattached(4), Event.LEADER_DISCOVERED, Follower(5, 2, NO_ENDPOINTS), "no endpoint of leader 2 is known"),
        (Follower(4, 2, AT_2), Event.ELECTION_WON, Leader(4, 10), "the table leads to no role"),
        (Follower(4, 2, AT_2), Event.FETCH_TIMED_OUT, Candidate(5), "the table leads to Prospective"),
    ],
    ids=str,
)
def test_illegal_transitions_name_the_rule(old: Role, event: Event, new: Role, rule: str) -> None:
    with pytest.raises(IllegalTransition, match=rf"by {event.name}: .*{rule}"):
        check_transition(old, event, new, self_key=SELF)


@pytest.mark.parametrize(
    ("role", "leader_id", "vote", "stored"),
    [
        (Unattached(4), None, None, ElectionState(4)),
        (Unattached(4, 2, key(3)), 2, key(3), ElectionState(4, 2, key(3))),
        (Prospective(4, 2, AT_2, key(3)), 2, key(3), ElectionState(4, 2, key(3))),
        (Candidate(4), None, SELF, ElectionState(4, None, SELF)),
        (Follower(4, 2, AT_2, key(3)), 2, key(3), ElectionState(4, 2, key(3))),
        (Leader(4, 10), 1, SELF, ElectionState(4, 1)),
        (Resigned(4), 1, SELF, ElectionState(4, 1)),
    ],
    ids=str,
)
def test_leader_vote_and_what_is_stored(
    role: Role, leader_id: int | None, vote: ReplicaKey | None, stored: ElectionState
) -> None:
    assert leader_of(role, SELF) == leader_id
    assert vote_of(role, SELF) == vote
    assert election_state_of(role, SELF) == stored


@pytest.mark.parametrize(
    ("old", "event", "new"), [row[:3] for row in LEGAL if not row[3]], ids=lambda value: type(value).__name__
)
def test_what_is_not_stored_would_not_change_what_is(old: Role, event: Event, new: Role) -> None:
    assert election_state_of(old, SELF) == election_state_of(new, SELF), event


VOTERS = voters(1, 2, 3)


@pytest.mark.parametrize(
    ("stored", "log_epoch", "role"),
    [
        (None, 0, Unattached(0)),
        (None, 3, Unattached(3)),
        (ElectionState(2, 1, None), 3, Unattached(3)),
        (ElectionState(2, 2, key(2)), 3, Unattached(3)),
        (ElectionState(4, 1), 4, Resigned(4)),
        (ElectionState(4, None, SELF), 3, Candidate(4)),
        (ElectionState(4, None, key(1, "?")), 3, Candidate(4)),
        (ElectionState(4, None, key(1, "b")), 3, Unattached(4, None, key(1, "b"))),
        (ElectionState(4, 2, key(3)), 3, Follower(4, 2, AT_2, key(3))),
        (ElectionState(4, 2, SELF), 3, Follower(4, 2, AT_2, SELF)),
        (ElectionState(4, 9, key(3)), 3, Unattached(4, 9, key(3))),
        (ElectionState(4, 9, SELF), 3, Unattached(4, 9, SELF)),
        (ElectionState(4, None, key(3)), 3, Unattached(4, None, key(3))),
        (ElectionState(4), 4, Unattached(4)),
    ],
    ids=str,
)
def test_initial_role(stored: ElectionState | None, log_epoch: int, role: Role) -> None:
    assert initial_role(stored, log_epoch, SELF, VOTERS) == role


def test_a_leader_without_endpoints_cannot_be_followed_at_start() -> None:
    unreachable = VoterSet([Voter(SELF), Voter(key(2))])
    assert initial_role(ElectionState(4, 2, key(3)), 3, SELF, unreachable) == Unattached(4, 2, key(3))


@pytest.mark.parametrize("others", [voters(2, 3), voters(key(1, "b"), 2, 3)], ids=["not a member", "another disk is"])
def test_only_members_of_their_own_set_campaign(others: VoterSet) -> None:
    assert may_campaign(VOTERS, SELF)
    assert not may_campaign(others, SELF)
    assert initial_role(ElectionState(4, None, SELF), 3, SELF, others) == Unattached(4, None, SELF)


@pytest.mark.parametrize(
    ("role", "event", "outcome"),
    [
        (
            Prospective(4, 2, AT_2, key(3)),
            Event.PRE_VOTE_LOST_TO_LEADER,
            Follower(4, 2, AT_2, key(3), lost_pre_vote=True),
        ),
        (
            Prospective(4, 2, AT_2, key(3), leader_resigned=True),
            Event.PRE_VOTE_LOST_TO_LEADER,
            Follower(4, 2, AT_2, key(3), leader_resigned=True, lost_pre_vote=True),
        ),
        (Prospective(4, 2, NO_ENDPOINTS, key(3)), Event.PRE_VOTE_LOST, Unattached(4, 2, key(3))),
        (Prospective(4, None, NO_ENDPOINTS, SELF), Event.PRE_VOTE_LOST, Unattached(4, None, SELF)),
    ],
    ids=str,
)
def test_after_a_lost_pre_vote(role: Prospective, event: Event, outcome: Role) -> None:
    assert after_lost_pre_vote(role) == (event, outcome)
    assert allowed(role, event, outcome)
