"""Leases, by which a leader answers reads without asking a majority each time.

See docs/explanation/protocol.md#read-leases.

Each voter promises that, if it is elected, it commits nothing for a while.  After a majority has confirmed a round, no
other leader can commit before that while is over.  All times are seconds, each on the clock of one node.
"""

from __future__ import annotations

from collections import deque

import attrs

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet


def promised_wait_ms(election_timeout_ms: int) -> int:
    """How long a new leader with that timeout commits nothing, by its own clock.

    It is half of the timeout, so that a restarted voter that no longer promises anything cannot be elected any sooner.
    """
    return election_timeout_ms // 2


def lease_ms(wait_ms: float, drift: float) -> float:
    """How long a lease lasts by the leader's clock if a new leader waits `wait_ms` by its own.

    `drift` is the largest deviation of any clock, as a share.  In the worst case, the leader's clock is slow by that
    much and the new leader's is fast by that much.
    """
    return wait_ms * (1.0 - drift) / (1.0 + drift)


@attrs.define
class ReadLease:
    """The lease of one leader in one epoch."""

    _leader: ReplicaKey
    _own_wait_ms: int
    _drift: float
    _rounds: deque[tuple[int, float]] = attrs.field(factory=deque)
    """The rounds that are not confirmed yet, each with the time at which it began."""
    _promises: dict[ReplicaKey, int] = attrs.field(factory=dict)
    """How long each voter would wait, in milliseconds, from the last round that it returned."""
    began_s: float | None = None
    """When the newest confirmed round began."""

    def round_began(self, round: int, now_s: float) -> None:
        if not self._rounds or self._rounds[-1][0] < round:
            self._rounds.append((round, now_s))

    def promise(self, voter: ReplicaKey, wait_ms: int) -> None:
        """Note what a voter promises; 0 if nothing."""
        self._promises[voter] = wait_ms

    def confirmed(self, round: int) -> None:
        """A majority has confirmed the round."""
        while self._rounds and self._rounds[0][0] <= round:
            self.began_s = self._rounds.popleft()[1]

    def length_s(self, voters: VoterSet) -> float:
        """How long a lease lasts among these voters; 0 if one of them promises nothing or the leader is outside."""
        if not voters.is_voter(self._leader):
            return 0.0
        waits = [self._own_wait_ms if voter.id == self._leader.id else self._promised_by(voter) for voter in voters]
        return lease_ms(min(waits), self._drift) / 1000

    def _promised_by(self, voter: Voter) -> int:
        if voter.key.directory_id != NO_DIRECTORY_ID:
            return self._promises.get(voter.key, 0)
        return min((wait_ms for key, wait_ms in self._promises.items() if key.id == voter.id), default=0)

    def holds(self, voters: VoterSet, now_s: float) -> bool:
        """Whether no other leader can have committed anything by now."""
        return self.began_s is not None and now_s < self.began_s + self.length_s(voters)

    def is_half_over(self, voters: VoterSet, now_s: float) -> bool:
        """Whether it is time for another round."""
        return self.began_s is None or now_s >= self.began_s + self.length_s(voters) / 2

    @property
    def awaits_round(self) -> bool:
        return bool(self._rounds)
