"""Static voters that follow others: every majority of the new set must meet every majority of the old one."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.static_voters import DisjointMajorities, disjoint_majorities
from kraft_trio.protocol.voter_set import majority_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1", "1"),
        ("1", "12"),
        ("12", "1"),
        ("12", "13"),
        ("12", "123"),
        ("123", "1234"),
        ("123", "12"),
        ("1234", "123"),
        ("1234", "12"),
        ("1234", "12345"),
        ("1234", "123456"),
        ("12345", "1234"),
    ],
)
def test_majorities_that_always_meet(before: str, after: str) -> None:
    assert disjoint_majorities(_ids(before), _ids(after)) is None


@pytest.mark.parametrize(
    ("before", "after", "old_majority", "new_majority"),
    [
        ("1", "2", "1", "2"),
        ("1", "123", "1", "23"),
        ("1", "12345", "1", "234"),
        ("12", "12345", "12", "345"),
        ("12", "34", "12", "34"),
        ("123", "1", "23", "1"),
        ("123", "124", "13", "24"),
        ("123", "12345", "12", "345"),
        ("123", "1234567", "12", "4567"),
        ("123", "456", "12", "45"),
        ("12345", "123", "145", "23"),
        ("12345", "12367", "145", "367"),
    ],
)
def test_majorities_that_need_not_meet(before: str, after: str, old_majority: str, new_majority: str) -> None:
    found = disjoint_majorities(_ids(before), _ids(after))
    assert found == DisjointMajorities(_ids(old_majority), _ids(new_majority))


@pytest.mark.parametrize(("before", "after"), [("", "123"), ("123", ""), ("", "")])
def test_an_unknown_set_has_no_majority(before: str, after: str) -> None:
    assert disjoint_majorities(_ids(before), _ids(after)) is None


_sets = st.frozensets(st.integers(0, 8), min_size=1, max_size=7)


@given(_sets, _sets)
def test_it_finds_two_disjoint_majorities_whenever_there_are_some(
    before: frozenset[int], after: frozenset[int]
) -> None:
    exist = any(
        not set(old) & set(new)
        for old in combinations(before, majority_of(len(before)))
        for new in combinations(after, majority_of(len(after)))
    )
    found = disjoint_majorities(before, after)
    assert (found is not None) == exist
    if found is not None:
        assert not set(found.before) & set(found.after)
        assert set(found.before) <= before
        assert len(found.before) == majority_of(len(before))
        assert set(found.after) <= after
        assert len(found.after) == majority_of(len(after))


def _ids(text: str) -> tuple[int, ...]:
    return tuple(map(int, text))
