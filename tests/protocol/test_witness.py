"""When a witness campaigns: the table of `protocol.witness`."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.features import claimed_features
from kraft_trio.protocol.types import VersionRange
from kraft_trio.protocol.witness import MAJORITIES, PATIENCE, WitnessStanding, doubts_leader

TIMEOUT_S = 1.0
BEHIND, ABLE = True, False


def heard(*asked: tuple[float, bool]) -> WitnessStanding:
    standing = WitnessStanding()
    for now_s, is_behind in asked:
        standing = standing.asked(is_behind=is_behind, now_s=now_s)
    return standing


@pytest.mark.parametrize(
    ("asked", "campaigns_at_s"),
    [
        ([], None),
        ([(5.0, ABLE)], None),
        ([(5.0, BEHIND)], 6.0),
        ([(5.0, BEHIND), (5.9, BEHIND)], 6.0),
        ([(5.0, BEHIND), (5.5, ABLE)], 5.5 + PATIENCE),
        ([(5.0, ABLE), (7.9, BEHIND)], 8.9),
        ([(5.0, BEHIND), (5.5, ABLE), (7.0, ABLE), (8.0, ABLE)], 5.5 + PATIENCE),
    ],
    ids=[
        "nobody has asked",
        "somebody else can win",
        "a voter is behind",
        "it asks again",
        "another one can win",
        "one that could win has not",
        "one that could win asks for ever",
    ],
)
def test_what_has_been_asked_decides(asked: list[tuple[float, bool]], campaigns_at_s: float | None) -> None:
    assert heard(*asked).campaigns_at_s(TIMEOUT_S) == campaigns_at_s


def test_majorities_that_nobody_uses_are_used_in_the_end() -> None:
    standing = WitnessStanding()
    for number in range(MAJORITIES):
        assert standing.campaigns_at_s(TIMEOUT_S) is None
        standing = standing.spared_majority(float(number))
    assert standing.campaigns_at_s(TIMEOUT_S) == float("-inf")


def test_majorities_must_follow_each_other() -> None:
    standing = WitnessStanding()
    for number in range(MAJORITIES - 1):
        standing = standing.spared_majority(float(number))
    standing = standing.found_no_majority().spared_majority(9.0)
    assert standing.campaigns_at_s(TIMEOUT_S) is None


def test_a_leader_makes_older_news_void() -> None:
    standing = heard((5.0, BEHIND)).spared_majority(6.0)
    assert standing.after_leader(None) is standing
    assert standing.after_leader(5.9) is standing
    assert standing.after_leader(6.0) == WitnessStanding()


@pytest.mark.parametrize(("silent_s", "doubts"), [(0.0, False), (0.9, False), (1.0, True), (5.0, True)])
def test_half_a_fetch_timeout_without_an_answer_is_enough_to_doubt(silent_s: float, doubts: bool) -> None:
    assert doubts_leader(silent_s, 2.0) == doubts


def test_a_witness_claims_any_level_but_of_its_own_feature() -> None:
    claimed = claimed_features(["metadata.version", "kraft.version", "some.new.version"])
    assert claimed["metadata.version"] == claimed["some.new.version"] == VersionRange(0, 32767)
    assert claimed["kraft.version"] == VersionRange(0, 1)
    assert claimed_features([])["kraft.version"] == VersionRange(0, 1)
