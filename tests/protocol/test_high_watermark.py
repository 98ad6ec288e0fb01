"""Up to where a leader may call its log committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.high_watermark import next_high_watermark
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

LEADER = key(1)
STARTED_AT = 10

CASES: list[tuple[str, VoterSet, dict[ReplicaKey, int], int | None, int | None]] = [
    ("one voter", voters(1), {key(1): 15}, None, 15),
    ("two voters: both", voters(1, 2), {key(1): 15, key(2): 12}, None, 12),
    ("three: the middle one", voters(1, 2, 3), {key(1): 15, key(2): 14, key(3): 11}, None, 14),
    ("four: the third", voters(1, 2, 3, 4), {key(1): 15, key(2): 14, key(3): 13, key(4): 12}, None, 13),
    ("five: the third", voters(1, 2, 3, 4, 5), {key(1): 15, key(2): 14, key(3): 13}, None, 13),
    ("nobody else has fetched", voters(1, 2, 3), {key(1): 15}, None, None),
    ("only the epoch's start on a majority", voters(1, 2, 3), {key(1): 15, key(2): 10}, None, None),
    ("one record of the epoch on a majority", voters(1, 2, 3), {key(1): 15, key(2): 11}, None, 11),
    ("an older watermark stays until then", voters(1, 2, 3), {key(1): 15, key(2): 10}, 7, 7),
    ("never back", voters(1, 2, 3), {key(1): 15, key(2): 12}, 14, 14),
    ("a lower offset of a new voter", voters(1, 2, 3, 4), {key(1): 15, key(2): 14, key(4): 11}, 14, 14),
    ("forth", voters(1, 2, 3), {key(1): 15, key(2): 15}, 14, 15),
    ("the leader's own unsynced end is not in it", voters(1, 2, 3), {key(1): 11, key(2): 15, key(3): 10}, None, 11),
    ("a leader outside the set", voters(2, 3), {key(1): 15, key(2): 12, key(3): 11}, None, 11),
    ("a leader outside a set of three", voters(2, 3, 4), {key(1): 15, key(2): 12, key(3): 11}, None, 11),
    ("the leader on another disk", voters(key(1, "b"), 2, 3), {key(1): 15, key(2): 12, key(3): 11}, None, 11),
    (
        "the leader's offset under the key of its other disk",
        voters(key(1, "b"), 2, 3),
        {key(1, "b"): 15, key(2): 12, key(3): 11},
        None,
        11,
    ),
    ("observers", voters(1, 2, 3), {key(1): 15, key(8): 15, key(9): 15}, None, None),
    ("a dead incarnation", voters(1, 2, 3), {key(1): 15, key(2, "b"): 15}, None, None),
    ("static voters: any disk", static_voters(1, 2, 3), {key(1): 15, key(2, "b"): 13}, None, 13),
    (
        "static voters: two disks of one id count once, the less",
        static_voters(1, 2, 3),
        {key(1): 15, key(2): 13, key(2, "b"): 12},
        None,
        12,
    ),
    ("static voters: each by its id", static_voters(1, 2, 3), {key(1): 15, key(2): 13, key(3): 12}, None, 13),
    ("static voters: its own key first", static_voters(1, 2), {key(1): 15, key(2, "?"): 14, key(2): 12}, None, 14),
    ("static voters: by their own key", static_voters(1, 2), {key(1, "?"): 15, key(2, "?"): 13}, None, 13),
    ("no voter set", VoterSet(), {key(1): 15}, None, None),
]


@pytest.mark.parametrize(
    ("members", "synced", "current", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_high_watermark(
    members: VoterSet, synced: dict[ReplicaKey, int], current: int | None, expected: int | None
) -> None:
    assert next_high_watermark(members, synced, LEADER, STARTED_AT, current) == expected


@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.integers(0, 40),
            st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=5, unique=True),
        ),
        max_size=40,
    ),
    st.integers(0, 15),
)
def test_it_never_falls_and_is_always_synced_on_a_majority(
    steps: list[tuple[int, int, list[int]]], epoch_start_offset: int
) -> None:
    """Whatever replicas report and however the voter set changes, a follower's restart below its old end included."""
    synced: dict[ReplicaKey, int] = {}
    current: int | None = None
    for replica_id, end_offset, member_ids in steps:
        synced[key(replica_id)] = end_offset
        members = voters(*member_ids)
        advanced = next_high_watermark(members, synced, LEADER, epoch_start_offset, current)
        if advanced != current:
            assert advanced is not None
            assert advanced > epoch_start_offset
            assert current is None or advanced > current
            assert members.is_majority(voter.id for voter in members if synced.get(voter.key, 0) >= advanced)
        else:
            higher = max(epoch_start_offset, -1 if current is None else current) + 1
            assert not members.is_majority(voter.id for voter in members if synced.get(voter.key, 0) >= higher)
        current = advanced
