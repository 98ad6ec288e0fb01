"""Which round of a leader a majority has confirmed, and which reads share a round."""

from __future__ import annotations

import pytest
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.read_barrier import NO_ROUND, ReadRounds, confirmed_round
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

LEADER = key(1)

CASES: list[tuple[str, VoterSet, dict[ReplicaKey, int], int]] = [
    ("one voter", voters(1), {}, 7),
    ("two voters: both", voters(1, 2), {key(2): 5}, 5),
    ("three: one other", voters(1, 2, 3), {key(2): 5}, 5),
    ("three: the newer of two", voters(1, 2, 3), {key(2): 5, key(3): 6}, 6),
    ("four: the second of the others", voters(1, 2, 3, 4), {key(2): 7, key(3): 6}, 6),
    ("nobody", voters(1, 2, 3), {}, NO_ROUND),
    ("a leader outside the set", voters(2, 3), {key(2): 7}, NO_ROUND),
    ("a leader outside the set, with both voters", voters(2, 3), {key(2): 7, key(3): 6}, 6),
    ("the leader on another disk", voters(key(1, "b"), 2, 3), {key(2): 7}, NO_ROUND),
    ("observers", voters(1, 2, 3), {key(8): 7, key(9): 7}, NO_ROUND),
    ("a dead incarnation", voters(1, 2, 3), {key(2, "b"): 7}, NO_ROUND),
    ("static voters: any disk", static_voters(1, 2, 3), {key(2, "b"): 7}, 7),
    ("no voter set", VoterSet(), {key(2): 7}, NO_ROUND),
]


@pytest.mark.parametrize(("members", "confirmed", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_majority_confirms_a_round(members: VoterSet, confirmed: dict[ReplicaKey, int], expected: int) -> None:
    assert confirmed_round(members, confirmed, LEADER, newest=7) == expected


def test_reads_share_a_round_until_a_voter_was_given_it() -> None:
    rounds = ReadRounds()
    assert rounds.begin() == rounds.begin() == 1
    assert rounds.give(key(2)) == 1
    assert rounds.begin() == 2, "the voter may have returned round 1 before this read began"
    assert rounds.give(key(3)) == 2


def test_a_voter_confirms_only_rounds_that_it_was_given() -> None:
    rounds = ReadRounds()
    rounds.begin()
    assert not rounds.confirm(key(2), 1)
    rounds.give(key(2))
    assert not rounds.confirm(key(2), 2)
    assert not rounds.confirm(key(3), 1)
    assert rounds.confirm(key(2), 1)
    assert not rounds.confirm(key(2), 1), "no news"
    assert rounds.confirmed == {key(2): 1}


def test_a_leader_without_reads_gives_no_round() -> None:
    rounds = ReadRounds()
    rounds.begin()
    rounds.rest()
    assert rounds.give(key(2)) == NO_ROUND
    assert rounds.begin() == 1
