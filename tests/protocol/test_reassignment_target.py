"""What the ids of a target stand for, and which targets are refused."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from kraft_trio.protocol.reassignment_target import resolve_target
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import Voter, VoterSet


def key(name: str) -> ReplicaKey:
    """`3` is replica 3, and `3'` is the same id on another disk."""
    id = int(name.rstrip("'"))
    return ReplicaKey(id, UUID(int=100 * name.count("'") + id))


def keys(names: str) -> list[ReplicaKey]:
    return list(map(key, names.split()))


def resolved(
    named: Iterable[int | ReplicaKey], present: str, can_vote: str | None = None, pending: str = ""
) -> tuple[ReplicaKey, ...] | Refused:
    voters = VoterSet(map(Voter, keys("1 2 3")))
    wanted = [it if isinstance(it, ReplicaKey) else ReplicaKey(it) for it in named]
    return resolve_target(wanted, voters, keys(present), keys(present if can_vote is None else can_vote), keys(pending))


@pytest.mark.parametrize(
    ("ids", "present", "target"),
    [
        ([3, 2, 1], "1 2 3", "1 2 3"),
        ([1, 2, 3], "1 2", "1 2 3"),
        ([4, 5, 6], "1 2 3 4 5 6", "4 5 6"),
        ([1, 2, 3], "1 2 3'", "1 2 3'"),
        ([1], "1 2 3 4 4'", "1"),
    ],
)
def test_ids_stand_for_voters_or_for_who_fetches(ids: list[int], present: str, target: str) -> None:
    assert resolved(ids, present) == tuple(keys(target))


@pytest.mark.parametrize(
    ("present", "target"),
    [
        ("1", "1 4"),
        ("1 4", "1 4"),
        # The newcomer's disk has been replaced before it became a voter.
        ("1 4'", "1 4'"),
        ("1' 4", "1' 4"),
    ],
)
def test_the_ids_of_the_pending_target_name_it_again(present: str, target: str) -> None:
    """A client that did not hear the answer may ask again, though a newcomer is down."""
    assert resolved([4, 1], present, pending="1 4") == tuple(keys(target))


@pytest.mark.parametrize(
    ("named", "present", "target"),
    [
        # Both incarnations fetch, and one is named.
        ("1 2 3'", "1 2 3 3'", "1 2 3'"),
        ("1 2 3", "1 2 3 3'", "1 2 3"),
        ("1 2 3", "1 2 3'", "1 2 3"),
        ("1 4'", "1 4 4'", "1 4'"),
    ],
)
def test_a_disk_can_be_named(named: str, present: str, target: str) -> None:
    assert resolved(keys(named), present) == tuple(keys(target))


def test_a_disk_that_is_named_must_fetch() -> None:
    refused = resolved(keys("1 2 3'"), "1 2 3")
    assert isinstance(refused, Refused)
    assert f"replica {key(chr(51) + chr(39))} is unknown to the leader" in refused.reason


@pytest.mark.parametrize(
    ("ids", "present", "can_vote", "complaint"),
    [
        ([], "1 2 3", None, "no voters: a quorum without voters could never continue"),
        ([1, 1], "1 2 3", None, "voters 1, 1: expected each id once"),
        (list(range(101)), "1 2 3", None, "101 voters: expected at most 100"),
        ([1, 4], "1 2 3", None, "replica 4 is unknown to the leader: it is no voter, and has not fetched lately"),
        ([4], "1 4 4'", None, f"replica 4 has 2 incarnations that fetch: {key('4')}, {key(chr(52) + chr(39))}"),
        ([3], "1 3 3'", None, "replica 3 has 2 incarnations that fetch"),
        ([4], "1 4", "", f"replica {key('4')} has told the leader no listener that voters could use"),
        ([8, 9], "1", None, "replica 8 is unknown to the leader"),
        ([8, 9], "1", None, "; replica 9 is unknown to the leader"),
    ],
)
def test_refused_targets_say_why(ids: list[int], present: str, can_vote: str | None, complaint: str) -> None:
    refused = resolved(ids, present, can_vote)
    assert isinstance(refused, Refused)
    assert refused.error == "INVALID_REPLICA_ASSIGNMENT"
    assert complaint in refused.reason
