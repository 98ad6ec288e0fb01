"""Membership, majorities, and which voter set may follow which."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import endpoints_of, key, static_voters, voters

from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet


@pytest.mark.parametrize(
    ("before", "after", "overlapping"),
    [
        (voters(1, 2, 3), voters(1, 2, 3), True),
        (voters(1, 2, 3), voters(1, 2, 3, 4), True),
        (voters(1, 2, 3), voters(1, 2), True),
        (voters(1), voters(1, 2), True),
        (voters(1, 2, 3), voters(1, 2, 4), False),
        (voters(1, 2, 3), voters(1, 2, key(3, "b")), False),
        (voters(1, 2, 3), voters(1, 2, 3, 4, 5), False),
        (voters(1, 2, 3), voters(1), False),
        (static_voters(1, 2, 3), voters(1, 2, 3), True),
        (static_voters(1, 2, 3), voters(1, 2, 3, 4), True),
        (static_voters(1, 2, 3), voters(1, 2, 4), False),
        (voters(1, 2, 3), static_voters(1, 2, 3), False),
        (VoterSet([Voter(key(1))]), VoterSet([Voter(key(1), endpoints_of(9))]), True),
        (voters(1, 2, 3), VoterSet(), False),
    ],
    ids=str,
)
def test_which_set_may_follow_which(before: VoterSet, after: VoterSet, overlapping: bool) -> None:
    assert before.has_overlapping_majority(after) is overlapping


MEMBERS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from("ab")), min_size=1, max_size=5, unique_by=lambda member: member[0]
)


def majorities(members: VoterSet) -> list[frozenset[ReplicaKey]]:
    keys = [voter.key for voter in members]
    return [frozenset(chosen) for chosen in itertools.combinations(keys, members.majority)]


@given(MEMBERS, MEMBERS)
def test_majorities_of_successive_sets_always_meet(before: list[tuple[int, str]], after: list[tuple[int, str]]) -> None:
    old, new = voters(*itertools.starmap(key, before)), voters(*itertools.starmap(key, after))
    if old.has_overlapping_majority(new):
        assert new.has_overlapping_majority(old)
        assert all(one & other for one, other in itertools.product(majorities(old), majorities(new)))


@given(MEMBERS, st.data())
def test_one_voter_more_or_less_may_always_follow(before: list[tuple[int, str]], data: st.DataObject) -> None:
    old = voters(*itertools.starmap(key, before))
    left_out = data.draw(st.sampled_from(old.voters))
    smaller = VoterSet(voter for voter in old if voter is not left_out)
    assert old.has_overlapping_majority(smaller)
    assert smaller.has_overlapping_majority(old)
    assert all(one & other for one, other in itertools.product(majorities(old), majorities(smaller)))


@pytest.mark.parametrize(
    ("members", "candidate", "is_voter"),
    [
        (voters(1, 2), key(1), True),
        (voters(1, 2), key(1, "b"), False),
        (voters(1, 2), key(1, "?"), False),
        (voters(1, 2), key(3), False),
        (static_voters(1, 2), key(1), True),
        (static_voters(1, 2), key(1, "b"), True),
        (static_voters(1, 2), key(3), False),
    ],
    ids=str,
)
def test_membership_is_by_directory_id(members: VoterSet, candidate: ReplicaKey, is_voter: bool) -> None:
    assert members.is_voter(candidate) is is_voter
    assert not members.is_only_voter(candidate)
    assert VoterSet([members.voters[0]]).is_only_voter(candidate) is (is_voter and candidate.id == 1)


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_a_majority_is_more_than_half(size: int, majority: int) -> None:
    members = voters(*range(size))
    assert members.majority == majority
    assert members.is_majority(range(majority))
    assert not members.is_majority(range(majority - 1))
    assert not members.is_majority([0] * size if size > 1 else [99])


def test_the_empty_set_has_no_majority() -> None:
    assert not VoterSet().is_majority([1, 2, 3])


def test_voters_are_sorted_and_their_ids_unique() -> None:
    assert voters(3, 1, 2).ids == (1, 2, 3)
    assert voters(3, 1, 2) == voters(1, 2, 3)
    with pytest.raises(ValueError, match=r"ids \[1, 1\] are not unique"):
        voters(1, key(1, "b"))


def test_the_key_of_a_voter_is_that_of_the_set() -> None:
    members = voters(1, 2)
    assert members.key_of(2, UUID(int=key(2).directory_id.int)) is members.voters[1].key
    assert members.key_of(2, key(2, "b").directory_id) == key(2, "b")
    assert members.key_of(3, key(3).directory_id) == key(3)
    assert static_voters(1).key_of(1, key(1).directory_id) == key(1), "a static voter's directory is not known"


def test_what_a_set_knows_of_a_voter() -> None:
    members = voters(1, 2)
    assert members.get(2) == Voter(key(2), endpoints_of(2))
    assert members.get(3) is None
    assert Voter(key(1)).endpoints == Endpoints()
