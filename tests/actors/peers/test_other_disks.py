"""A voter remembers whose machines answer with another disk, and says so when no leader is possible any more."""

from __future__ import annotations

from uuid import UUID

import pytest

from kraft_trio.actors.context import other_disks
from kraft_trio.actors.context.other_disks import OtherDisks
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet

KEYS = [ReplicaKey(voter_id, UUID(int=1000 + voter_id)) for voter_id in (1, 2, 3)]
VOTERS = VoterSet(map(Voter, KEYS))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    class Log:
        def error(self, _event: str, *, missing: str, voters: str) -> None:
            lines.append(missing)

    monkeypatch.setattr(other_disks, "log", Log())
    return lines


def test_a_minority_is_remembered_without_a_word(said: list[str]) -> None:
    others = OtherDisks()
    others.answered(KEYS[1], is_other=True, voters=VOTERS)
    others.answered(KEYS[2], is_other=False, voters=VOTERS)
    assert others.among(VOTERS) == (KEYS[1],)
    assert said == []


def test_a_majority_is_said_once(said: list[str]) -> None:
    others = OtherDisks()
    for _ in range(3):
        for key in KEYS[1:]:
            others.answered(key, is_other=True, voters=VOTERS)
    assert said == [f"{KEYS[1]}, {KEYS[2]}"]


def test_a_disk_that_is_mounted_again_counts(said: list[str]) -> None:
    others = OtherDisks()
    for key in KEYS[1:]:
        others.answered(key, is_other=True, voters=VOTERS)
    others.answered(KEYS[2], is_other=False, voters=VOTERS)
    assert others.among(VOTERS) == (KEYS[1],)


def test_voters_that_have_left_are_forgotten() -> None:
    others = OtherDisks()
    others.answered(KEYS[1], is_other=True, voters=VOTERS)
    assert others.among(VoterSet([Voter(KEYS[0]), Voter(KEYS[2])])) == ()
