"""When a leader must admit that it reaches no majority."""

from __future__ import annotations

import pytest
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.check_quorum import ReplicaPosition, has_majority_contact
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
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


FETCHES: list[tuple[str, list[tuple[int, int]], bool]] = [
    ("the first Fetch of an epoch", [(5, 9)], True),
    ("further than before", [(5, 9), (7, 9)], True),
    ("further, though the log grows faster", [(5, 9), (6, 900)], True),
    ("the same offset below the end", [(5, 9), (5, 9)], False),
    ("the same offset, the log grows", [(5, 9), (5, 12)], False),
    ("at the end, again and again", [(9, 9), (9, 9)], True),
    ("at what was the end", [(9, 9), (9, 10)], False),
    ("back from the end by a truncation", [(9, 12), (7, 12)], False),
    ("a Fetch repeated by the network, and on from there", [(7, 9), (5, 9), (7, 9)], False),
]


@pytest.mark.parametrize(("requests", "expected"), [case[1:] for case in FETCHES], ids=[c[0] for c in FETCHES])
def test_fetch_is_contact(requests: list[tuple[int, int]], expected: bool) -> None:
    position = ReplicaPosition()
    *_, last = [position.fetches(offset, end) for offset, end in requests]
    assert last is expected


OLD, NEW = OffsetAndEpoch(10, 1), OffsetAndEpoch(20, 2)
PIECES: list[tuple[str, list[tuple[OffsetAndEpoch, int, int]], bool]] = [
    ("the first piece", [(OLD, 0, 100)], True),
    ("the next piece", [(OLD, 0, 100), (OLD, 100, 100)], True),
    ("the same piece", [(OLD, 0, 100), (OLD, 0, 100)], False),
    ("asked ahead, and again", [(OLD, 0, 100), (OLD, 100, 100), (OLD, 0, 100)], False),
    ("a newer snapshot from its beginning", [(OLD, 100, 100), (NEW, 0, 100)], True),
    ("for so little that it is no download", [(OLD, 100, 100), (OLD, 0, 1)], True),
]


@pytest.mark.parametrize(("requests", "expected"), [case[1:] for case in PIECES], ids=[c[0] for c in PIECES])
def test_fetch_snapshot_is_contact(requests: list[tuple[OffsetAndEpoch, int, int]], expected: bool) -> None:
    position = ReplicaPosition()
    *_, last = [position.fetches_snapshot(*request) for request in requests]
    assert last is expected
