"""When a leader must admit that it reaches no majority."""

from __future__ import annotations

import pytest
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.check_quorum import has_majority_contact
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

LEADER = key(1)
NOW, RECENT, LATE = 10_000, 7_001, 7_000

CASES: list[tuple[str, VoterSet, dict[ReplicaKey, int], bool]] = [
    ("a sole voter never resigns", voters(1), {}, True),
    ("a sole static voter", static_voters(1), {}, True),
    ("two: the other is needed", voters(1, 2), {}, False),
    ("two: the other", voters(1, 2), {key(2): RECENT}, True),
    ("three: one other", voters(1, 2, 3), {key(2): RECENT}, True),
    ("three: one other, exactly too long ago", voters(1, 2, 3), {key(2): LATE}, False),
    ("three: none", voters(1, 2, 3), {}, False),
    ("four: one other", voters(1, 2, 3, 4), {key(2): RECENT, key(3): LATE}, False),
    ("four: two others", voters(1, 2, 3, 4), {key(2): RECENT, key(3): RECENT}, True),
    ("leader outside, of three: one", voters(2, 3, 4), {key(2): RECENT}, False),
    ("leader outside, of three: two", voters(2, 3, 4), {key(2): RECENT, key(4): RECENT}, True),
    ("leader outside, of one: none", voters(2), {}, False),
    ("leader outside, of one: that one", voters(2), {key(2): RECENT}, True),
    ("the leader's id on another disk", voters(key(1, "b"), 2, 3), {key(2): RECENT}, False),
    ("observers", voters(1, 2, 3), {key(8): RECENT, key(9): RECENT}, False),
    ("a dead incarnation", voters(1, 2, 3), {key(2, "b"): RECENT}, False),
    (
        "two incarnations of a static voter count once",
        static_voters(1, 2, 3, 4),
        {key(2): RECENT, key(2, "b"): RECENT},
        False,
    ),
    ("no voter set", VoterSet(), {}, False),
]


@pytest.mark.parametrize(("members", "contacts", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_majority_contact(members: VoterSet, contacts: dict[ReplicaKey, int], expected: bool) -> None:
    assert has_majority_contact(members, LEADER, contacts, NOW, timeout_ms=3_000) is expected
