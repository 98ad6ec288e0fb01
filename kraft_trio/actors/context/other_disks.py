"""The voters that answer with another disk than the voter set names: a majority of them leaves no leader possible."""

from __future__ import annotations

from collections.abc import Iterable

from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet, majority_of

log = get_logger(__name__)


class OtherDisks:
    """The voters that answer with another disk.  VoteRound notes their answers; the node's status reads them.

    A machine that comes back with a blank or another disk has its voter's id and address, but not its log and its
    votes.  It refuses requests that name the voter's directory id.
    """

    def __init__(self) -> None:
        self._keys: dict[int, ReplicaKey] = {}
        """By voter id, the replica that was asked for and was not there."""
        self._said: frozenset[ReplicaKey] = frozenset()

    def among(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """The voters of this set whose machines have other disks, as far as this node has heard."""
        return tuple(key for _, key in sorted(self._keys.items()) if voters.is_voter(key))

    def answered(self, asked: ReplicaKey, *, is_other: bool, voters: VoterSet) -> None:
        """Note whether another disk has answered in the place of that voter, and log it if no leader is possible."""
        if is_other:
            self._keys[asked.id] = asked
        else:
            self._keys.pop(asked.id, None)
        missing = frozenset(self.among(voters))
        if len(voters) - len(missing) < majority_of(len(voters)) and missing != self._said:
            self._said = missing
            log.error(
                "no leader is possible: a majority of the voters have other disks; mount those with the missing "
                "directory ids, and keep this node as it is",
                missing=_text(missing),
                voters=_text(voter.key for voter in voters),
            )


def _text(keys: Iterable[ReplicaKey]) -> str:
    return ", ".join(map(str, sorted(keys, key=lambda key: key.id)))
