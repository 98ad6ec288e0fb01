"""The set of voters, its majority, and membership by replica key (KIP-853 "Voters")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, ReplicaKey, VersionRange

KRAFT_VERSION: Final = "kraft.version"
"""The feature that puts voter sets into the log, from version 1 on."""

SUPPORTED_KRAFT_VERSIONS: Final = VersionRange(0, 1)
"""The versions that this build supports."""


@attrs.frozen
class Voter:
    """One voter as a VotersRecord names it: its key, its listeners, and the kraft.versions it supports."""

    key: ReplicaKey
    endpoints: Endpoints = Endpoints()
    kraft_versions: VersionRange = VersionRange()

    @property
    def id(self) -> int:
        return self.key.id


def _sorted_by_id(voters: Iterable[Voter]) -> tuple[Voter, ...]:
    return tuple(sorted(voters, key=lambda voter: voter.key.id))


def majority_of(size: int) -> int:
    """The smallest number of voters that is more than half of so many."""
    return size // 2 + 1


@attrs.frozen
class VoterSet:
    """Voters sorted by id, ids unique.  The empty set means "not known"; it has no majority and elects nobody."""

    voters: tuple[Voter, ...] = attrs.field(default=(), converter=_sorted_by_id)
    ids: tuple[int, ...] = attrs.field(init=False, eq=False, repr=False)

    @ids.default
    def _ids_of_voters(self) -> tuple[int, ...]:
        return tuple([voter.key.id for voter in self.voters])

    def __attrs_post_init__(self) -> None:
        if len(set(self.ids)) != len(self.ids):
            raise ValueError(f"voters: ids {list(self.ids)} are not unique; a voter set names each replica id once")

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def majority(self) -> int:
        return majority_of(len(self.voters))

    def get(self, voter_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.id == voter_id:
                return voter
        return None

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this incarnation is in the set.

        A static voter, whose directory id the set does not know, matches any incarnation.  Other voters match by their
        directory id (KIP-853, scenario S2).
        """
        voter = self.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory_id
        return known == key.directory_id or known == NO_DIRECTORY_ID  # noqa: PLR1714  rarely needs the second

    def key_of(self, id: int, directory_id: UUID) -> ReplicaKey:
        """The key of a replica: for a voter the very object that the set has, so that comparing the two is fast."""
        voter = self.get(id)
        if voter is not None and voter.key.directory_id == directory_id:
            return voter.key
        return ReplicaKey(id, directory_id)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def has_overlapping_majority(self, following: VoterSet) -> bool:
        """Whether `following` may come right after this set, so that all majorities of both overlap.

        True if the sets differ by at most one replica key (invariant OverlappingVoterSets).  One voter out and another
        in are two differences.  New endpoints are no difference, nor is a directory id that was unknown before.
        """
        kept = 0
        for voter in self.voters:
            other = following.get(voter.id)
            if other is not None and voter.key.directory_id in (NO_DIRECTORY_ID, other.key.directory_id):
                kept += 1
        return len(self.voters) + len(following.voters) - 2 * kept <= 1

    def is_majority(self, voter_ids: Iterable[int]) -> bool:
        """Whether these ids, each counted once and only if in the set, are more than half of it."""
        return len(self.voters) > 0 and len(set(voter_ids) & set(self.ids)) >= self.majority
