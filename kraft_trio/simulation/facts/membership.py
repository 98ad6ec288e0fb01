"""Membership of a voter set, and how two sets differ (KIP-853 "Voters").

A second, short derivation: the invariants must not ask the code under test whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet


def is_same_replica(member: ReplicaKey, key: ReplicaKey) -> bool:
    """Whether `key` is this member of a set: by id and directory id, or by id alone if the set is static."""
    return member.id == key.id and member.directory_id in (NO_DIRECTORY_ID, key.directory_id)


def is_member(voters: VoterSet, key: ReplicaKey) -> bool:
    return any(is_same_replica(voter.key, key) for voter in voters)


def is_majority(count: int, voters: VoterSet) -> bool:
    """Whether `count` voters are more than half of the set."""
    return 2 * count > len(voters)


def changed_members(old: VoterSet, new: VoterSet) -> list[ReplicaKey]:
    """The keys that only one of the two sets has, ascending.

    A member whose directory id becomes known has not changed: the upgrade to kraft.version 1 fills it in.
    """
    gone = {voter.key for voter in old} - {voter.key for voter in new}
    come = {voter.key for voter in new} - {voter.key for voter in old}
    filled_in = {key.id for key in gone if key.directory_id == NO_DIRECTORY_ID} & {key.id for key in come}
    return sorted(key for key in gone | come if key.id not in filled_in)


def text_of_keys(keys: Iterable[ReplicaKey]) -> str:
    """The keys for a human, ascending: `{1, 2-directory}`."""
    return "{" + ", ".join(str(key) for key in sorted(keys)) + "}"


def text_of(voters: VoterSet) -> str:
    return text_of_keys(voter.key for voter in voters)
