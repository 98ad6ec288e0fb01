"""Rounds by which a leader learns that nobody has replaced it (docs/explanation/protocol.md#read-barriers).

A read that must see every acknowledged append begins a round.  The leader gives the number of the round in responses to
Fetch, and each voter returns the last number that it was given with its next Fetch.  That Fetch was sent after the read
began.  When a majority has returned the number, no other leader had been elected when the read began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

NO_ROUND: Final = 0
"""Stands for no round.  The first round of an epoch is 1."""


@attrs.frozen
class ReadIndex:
    """Up to where a replica must have applied the log before it answers a read."""

    offset: int
    """Exclusive."""
    is_by_lease: bool
    """Whether a lease made a round unnecessary."""


@attrs.define
class ReadRounds:
    """The rounds of one leader in one epoch."""

    newest: int = NO_ROUND
    """The newest round that a read waits for, or NO_ROUND if no read waits."""
    _last: int = NO_ROUND
    _is_given: bool = True
    _given: dict[ReplicaKey, int] = attrs.field(factory=dict)
    confirmed: dict[ReplicaKey, int] = attrs.field(factory=dict)
    """The newest round that each voter has returned."""

    def begin(self) -> int:
        """The round for a read that begins now.  Reads share a round until it is first given to a voter."""
        if self._is_given:
            self._last += 1
            self._is_given = False
        self.newest = self._last
        return self._last

    def give(self, voter: ReplicaKey) -> int:
        """The round to put into a response to this voter."""
        if self.newest:
            self._is_given = True
            self._given[voter] = self.newest
        return self.newest

    def was_given(self, voter: ReplicaKey, round: int) -> bool:
        """Whether a response to this voter had that round or a newer one."""
        return self._given.get(voter, NO_ROUND) >= round

    def confirm(self, voter: ReplicaKey, round: int) -> bool:
        """Note that the voter has returned that round.  False if it was not given that round, or had confirmed it."""
        if not self.confirmed.get(voter, NO_ROUND) < round <= self._given.get(voter, NO_ROUND):
            return False
        self.confirmed[voter] = round
        return True

    def rest(self) -> None:
        """No read waits any longer."""
        self.newest = NO_ROUND


def confirmed_round(voters: VoterSet, confirmed: Mapping[ReplicaKey, int], leader: ReplicaKey, newest: int) -> int:
    """The newest round that a majority has confirmed.

    `voters` is the newest set of the log, committed or not, as for the high watermark (rule R2).  The leader confirms
    `newest` itself, unless it is outside the set.  Observers and other incarnations of a voter do not count.
    """
    if not len(voters):
        return NO_ROUND
    own = leader.id if voters.is_voter(leader) else None
    rounds = []
    for voter in voters.voters:
        key = voter.key
        rounds.append(newest if key.id == own else _confirmed_by(key, confirmed))
    rounds.sort(reverse=True)
    return rounds[voters.majority - 1]


def _confirmed_by(voter: ReplicaKey, confirmed: Mapping[ReplicaKey, int]) -> int:
    """The round that a voter has confirmed; a static voter, whose directory id is unknown, by any incarnation."""
    if voter.directory_id != NO_DIRECTORY_ID:
        return confirmed.get(voter, NO_ROUND)
    return max((round for key, round in confirmed.items() if key.id == voter.id), default=NO_ROUND)
