"""Learning who leads, and who campaigns when once a leader has resigned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import endpoints_of, key

from kraft_trio.protocol.quorum_epoch import (
    AlreadyFollowing,
    BecomeFollower,
    BecomeUnattached,
    Fenced,
    InconsistentLeader,
    InvalidRequest,
    LeaderResigned,
    Learned,
    TooFarAhead,
    begin_quorum_epoch,
    end_quorum_epoch,
    hear_of_move,
    learn_leader,
    preferred_successors,
    successor_backoff_ms,
    successor_position,
)
from kraft_trio.protocol.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    after_lost_pre_vote,
)
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey

SELF = key(1)
AT_2 = endpoints_of(2)
NONE = Endpoints()
MORE = Endpoints({**dict(AT_2), "SECURE": Endpoint("host-2", 9094)})
FOLLOWING_2 = Follower(5, 2, AT_2)


@pytest.mark.parametrize(
    ("role", "leader_id", "epoch", "endpoints", "learned"),
    [
        (Unattached(5), 2, 4, AT_2, Fenced(5)),
        (Leader(5, 0), None, 4, NONE, Fenced(5)),
        (Unattached(5), 2, 5, AT_2, BecomeFollower(5, 2, AT_2)),
        (Unattached(5, leader_id=2), 2, 5, AT_2, BecomeFollower(5, 2, AT_2)),
        (Prospective(5), 2, 5, AT_2, BecomeFollower(5, 2, AT_2)),
        (Prospective(5, leader_id=2), 2, 5, AT_2, BecomeFollower(5, 2, AT_2)),
        (Prospective(5, 2, AT_2), 2, 5, AT_2, AlreadyFollowing()),
        (Prospective(5, 2, AT_2), 2, 5, MORE, BecomeFollower(5, 2, MORE)),
        (Prospective(5, 2, AT_2), 3, 5, endpoints_of(3), InconsistentLeader(5, 2, 3)),
        (Prospective(5, 2, AT_2), 2, 6, AT_2, BecomeFollower(6, 2, AT_2)),
        (Candidate(5), 2, 5, AT_2, BecomeFollower(5, 2, AT_2)),
        (FOLLOWING_2, 2, 5, AT_2, AlreadyFollowing()),
        (FOLLOWING_2, 2, 5, MORE, BecomeFollower(5, 2, MORE)),
        (FOLLOWING_2, 2, 5, NONE, AlreadyFollowing()),
        (FOLLOWING_2, 2, 6, AT_2, BecomeFollower(6, 2, AT_2)),
        (FOLLOWING_2, 3, 6, endpoints_of(3), BecomeFollower(6, 3, endpoints_of(3))),
        (FOLLOWING_2, 3, 5, endpoints_of(3), InconsistentLeader(5, 2, 3)),
        (Unattached(5, leader_id=2), 3, 5, endpoints_of(3), InconsistentLeader(5, 2, 3)),
        (Leader(5, 0), 2, 5, AT_2, InconsistentLeader(5, 1, 2)),
        (Resigned(5), 2, 5, AT_2, InconsistentLeader(5, 1, 2)),
        (Leader(5, 0), 2, 6, AT_2, BecomeFollower(6, 2, AT_2)),
        (Resigned(5), 2, 6, AT_2, BecomeFollower(6, 2, AT_2)),
        (Leader(5, 0), 1, 5, endpoints_of(1), AlreadyFollowing()),
        (Resigned(5), 1, 5, NONE, AlreadyFollowing()),
        (Unattached(5), 1, 5, endpoints_of(1), InconsistentLeader(5, None, 1)),
        (Candidate(5), 1, 5, endpoints_of(1), InconsistentLeader(5, None, 1)),
        (Leader(5, 0), 1, 6, endpoints_of(1), InconsistentLeader(6, None, 1)),
        (Unattached(5), None, 5, NONE, AlreadyFollowing()),
        (Unattached(5), 2, 5, NONE, AlreadyFollowing()),
        (FOLLOWING_2, None, 5, NONE, AlreadyFollowing()),
        (FOLLOWING_2, None, 6, NONE, BecomeUnattached(6, None)),
        (FOLLOWING_2, None, 6, AT_2, BecomeUnattached(6, None)),
        (Leader(5, 0), None, 6, NONE, BecomeUnattached(6, None)),
        (Unattached(5), 2, 6, NONE, BecomeUnattached(6, 2)),
    ],
    ids=str,
)
def test_learn_leader(role: Role, leader_id: int | None, epoch: int, endpoints: Endpoints, learned: Learned) -> None:
    assert learn_leader(role, SELF, leader_id, epoch, endpoints) == learned


@pytest.mark.parametrize(
    ("role", "leader_id", "epoch", "outcome"),
    [
        (Unattached(5), 2, 4, Fenced(5)),
        (Unattached(5), -1, 4, Fenced(5)),
        (Unattached(5), 1, 4, Fenced(5)),
        (Unattached(5), -1, 5, InvalidRequest("leader id -1, expected 0 or more")),
        (Leader(5, 0), 1, 5, "own; two nodes share it"),
        (Unattached(5), 1, 6, "own; two nodes share it"),
        (FOLLOWING_2, 3, 7, TooFarAhead(6)),
        (Leader(5, 0), 2, 7, TooFarAhead(6)),
        (FOLLOWING_2, 3, 5, InconsistentLeader(5, 2, 3)),
        (Leader(5, 0), 2, 5, InconsistentLeader(5, 1, 2)),
        (Unattached(5), 2, 5, BecomeFollower(5, 2, AT_2)),
        (FOLLOWING_2, 2, 5, AlreadyFollowing()),
    ],
    ids=str,
)
def test_begin_and_end_quorum_epoch(role: Role, leader_id: int, epoch: int, outcome: object) -> None:
    begun = begin_quorum_epoch(role, SELF, leader_id, epoch, AT_2, 6)
    ended = end_quorum_epoch(role, SELF, leader_id, epoch, AT_2, 6)
    if isinstance(outcome, str):
        assert isinstance(begun, InvalidRequest)
        assert outcome in begun.reason
        assert ended == begun
    elif isinstance(outcome, Fenced | TooFarAhead | InvalidRequest | InconsistentLeader):
        assert begun == ended == outcome
    else:
        assert begun == outcome
        assert ended == LeaderResigned(begun)


@pytest.mark.parametrize(
    ("role", "endpoints", "outcome"),
    [
        (Prospective(5, 2, AT_2), AT_2, BecomeFollower(5, 2, AT_2)),
        (Prospective(5, 2, AT_2), NONE, BecomeFollower(5, 2, AT_2)),
        (Prospective(5, 2, NONE), NONE, AlreadyFollowing()),
        (Prospective(5, 2, AT_2, leader_resigned=True), AT_2, AlreadyFollowing()),
    ],
    ids=str,
)
def test_a_prospective_goes_back_to_a_leader_it_hears_itself(
    role: Prospective, endpoints: Endpoints, outcome: object
) -> None:
    assert begin_quorum_epoch(role, SELF, 2, 5, endpoints, 6) == outcome
    assert end_quorum_epoch(role, SELF, 2, 5, endpoints, 6) == LeaderResigned(AlreadyFollowing())


@pytest.mark.parametrize(
    ("leader_id", "epoch", "endpoints", "outcome"),
    [
        (2, 5, endpoints_of(9), BecomeFollower(5, 2, endpoints_of(9))),
        (3, 5, endpoints_of(3), InconsistentLeader(5, 2, 3)),
        (2, 6, NONE, BecomeUnattached(6, 2)),
        (0, 6, endpoints_of(0), BecomeFollower(6, 0, endpoints_of(0))),
    ],
    ids=str,
)
def test_what_a_prospective_that_knows_a_leader_hears_of_another(
    leader_id: int, epoch: int, endpoints: Endpoints, outcome: object
) -> None:
    assert begin_quorum_epoch(Prospective(5, 2, AT_2), SELF, leader_id, epoch, endpoints, 6) == outcome


@pytest.mark.parametrize(
    ("role", "leader_id", "epoch", "endpoints", "outcome"),
    [
        (Prospective(5, 2, AT_2), 2, 5, endpoints_of(9), Prospective(5, 2, endpoints_of(9))),
        (Prospective(5, 2, AT_2, key(3)), 2, 5, endpoints_of(9), Prospective(5, 2, endpoints_of(9), key(3))),
        (Prospective(5, 2, AT_2), 2, 5, AT_2, None),
        (Prospective(5, 2, AT_2), 2, 5, NONE, None),
        (Prospective(5, 2, AT_2), 2, 4, endpoints_of(9), None),
        (Prospective(5, 2, AT_2), 3, 5, endpoints_of(9), None),
        (Prospective(5), None, 5, endpoints_of(9), None),
        (FOLLOWING_2, 2, 5, endpoints_of(9), None),
        (Unattached(5, 2), 2, 5, endpoints_of(9), None),
    ],
    ids=str,
)
def test_the_leaders_other_address_is_for_a_lost_pre_vote(
    role: Role, leader_id: int | None, epoch: int, endpoints: Endpoints, outcome: Prospective | None
) -> None:
    assert hear_of_move(role, leader_id, epoch, endpoints) == outcome
    if outcome is not None:
        assert after_lost_pre_vote(outcome)[1] == Follower(5, 2, endpoints, outcome.voted, lost_pre_vote=True)


def test_other_listeners_of_the_leader_are_kept() -> None:
    known = Endpoints({"CONTROLLER": Endpoint("host-2", 9093), "SECOND": Endpoint("host-2", 9094)})
    moved = hear_of_move(Prospective(5, 2, known), 2, 5, endpoints_of(9))
    assert moved is not None
    assert dict(moved.leader_endpoints) == {
        "CONTROLLER": Endpoint("host-9", 9093),
        "SECOND": Endpoint("host-2", 9094),
    }


def test_resigning_counts_even_if_the_leader_is_unreachable() -> None:
    assert end_quorum_epoch(Unattached(5), SELF, 2, 6, NONE, 6) == LeaderResigned(BecomeUnattached(6, 2))


def test_successors_by_descending_fetch_offset() -> None:
    progress = [(key(3), 10), (key(5), -1), (key(4), 12), (key(2), 10)]
    assert preferred_successors(progress) == (key(4), key(2), key(3), key(5))


@pytest.mark.parametrize(
    ("preferred", "position"),
    [
        ((key(1), key(2)), 0),
        ((key(3), key(2), key(1)), 2),
        ((key(3), key(1, "?")), 1),
        ((key(3), key(1, "b")), None),
        ((key(2),), None),
        ((), None),
    ],
    ids=str,
)
def test_successor_position(preferred: tuple[ReplicaKey, ...], position: int | None) -> None:
    assert successor_position(SELF, preferred) == position


@pytest.mark.parametrize(
    ("count", "backoffs"),
    [(1, [0]), (2, [0, 500]), (3, [0, 250, 500]), (4, [0, 125, 250, 500]), (5, [0, 62, 124, 248, 496])],
)
def test_successor_backoff(count: int, backoffs: list[int]) -> None:
    assert [successor_backoff_ms(position, count, 1000) for position in range(count)] == backoffs


def test_a_voter_that_is_not_listed_waits_longest() -> None:
    assert successor_backoff_ms(None, 4, 1000) == 1000
    assert successor_backoff_ms(None, 0, 1000) == 1000


@given(st.integers(1, 200), st.integers(0, 10_000), st.data())
def test_backoff_grows_from_place_to_place_and_is_bounded(count: int, max_ms: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, count - 1))
    backoff = successor_backoff_ms(position, count, max_ms)
    assert 0 <= backoff <= max_ms
    if position:
        assert backoff >= successor_backoff_ms(position - 1, count, max_ms)
