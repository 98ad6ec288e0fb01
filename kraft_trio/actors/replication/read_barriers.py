"""The reads that wait at a leader until a majority has confirmed that it still leads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.leader_fetches import LeaderFetches
from kraft_trio.actors.replication.round_asker import RoundAsker
from kraft_trio.messages import FetchReceived, ReadIndexRequested
from kraft_trio.protocol.read_barrier import ReadIndex, ReadRounds, confirmed_round
from kraft_trio.protocol.read_lease import ReadLease, promised_wait_ms
from kraft_trio.protocol.types import ReplicaKey


@attrs.frozen(eq=False)
class _WaitingRead:
    round: int
    read_index: int | None
    """The high watermark when the read began; None if the epoch had no commit yet."""
    message: ReadIndexRequested


class ReadBarriers:
    """Answers the requests for a read index in one leader's epoch (docs/explanation/protocol.md#read-barriers).

    Each is answered once: when its round is confirmed and the epoch has a commit, or with None when the epoch ends.  A
    request that nobody waits for any longer is dropped.  While a lease holds, requests are answered at once, and one in
    the lease's second half begins a round that renews it.
    """

    def __init__(
        self,
        context: EpochContext,
        rounds: ReadRounds,
        fetches: LeaderFetches,
        high_watermark: Callable[[], int | None],
    ) -> None:
        self._context = context
        self._rounds = rounds
        self._fetches = fetches
        self._high_watermark = high_watermark
        self._waiting: deque[_WaitingRead] = deque()
        self.asker = RoundAsker(context, rounds, self.answer)
        self.begun = False
        """Whether a round has begun that no voter was given yet.  `spread` gives it."""
        config = context.config
        self._lease: ReadLease | None = None
        if config.has_read_leases:
            own_wait_ms = promised_wait_ms(config.election_timeout_ms)
            self._lease = ReadLease(context.key, own_wait_ms, config.read_lease_max_clock_drift_ppm / 1e6)

    @property
    def are_waiting(self) -> bool:
        return len(self._waiting) > 0

    def begin(self, message: ReadIndexRequested) -> None:
        high_watermark = self._high_watermark()
        if self._lease is not None and high_watermark is not None and self._lease_holds(self._lease, high_watermark):
            message.reply.answer(ReadIndex(high_watermark, is_by_lease=True))
        else:
            self._waiting.append(_WaitingRead(self._begin_round(), high_watermark, message))

    def _begin_round(self) -> int:
        self.begun = True
        round = self._rounds.begin()
        if self._lease is not None:
            self._lease.round_began(round, self._context.clock_s())
        return round

    def _lease_holds(self, lease: ReadLease, high_watermark: int) -> bool:
        """Whether no other leader can have committed anything yet.  Renews the lease in time.

        There is no lease while a voter set is uncommitted, because two sets may then elect a leader.
        """
        history, now_s = self._context.log.voters, self._context.clock_s()
        if not lease.holds(history.voters, now_s) or history.uncommitted(high_watermark):
            return False
        if lease.is_half_over(history.voters, now_s) and not lease.awaits_round:
            self._begin_round()
        return True

    def spread(self) -> None:
        """Give the newest round to the voters whose fetches are parked.  Reads that have arrived together share it."""
        self.begun = False
        self.answer()
        if self._rounds.newest:
            self._fetches.give_round()
            if self.asker.mute:
                self.asker.ask()

    def fetched(self, message: FetchReceived, replica: ReplicaKey) -> None:
        """Note the round that a replica has returned with a valid Fetch, which it sent after it was given the round."""
        round = message.request.read_round
        if message.partition.current_leader_epoch != self._context.epoch:
            return
        if self._rounds.confirm(replica, round):
            self.asker.mute.discard(replica)
            if self._lease is not None:
                self._lease.promise(replica, message.request.read_lease_wait_ms)
            self.answer()
        elif self._rounds.newest and self._rounds.was_given(replica, round + 1):
            self.asker.is_mute(replica)

    def answer(self) -> None:
        """Answer the reads whose rounds are confirmed, once the epoch has a commit."""
        if not self._waiting and self._lease is None:
            return
        high_watermark = self._high_watermark()
        if high_watermark is None:
            return
        voters = self._context.log.voters.voters
        confirmed = confirmed_round(voters, self._rounds.confirmed, self._context.key, self._rounds.newest)
        waiting = self._waiting
        while waiting and (waiting[0].round <= confirmed or waiting[0].message.reply.is_abandoned):
            read = waiting.popleft()
            if not read.message.reply.is_abandoned:
                offset = high_watermark if read.read_index is None else read.read_index
                read.message.reply.answer(ReadIndex(offset, is_by_lease=False))
        if self._lease is not None:
            self._lease.confirmed(confirmed)
        if not waiting and (self._lease is None or not self._lease.awaits_round):
            self._rounds.rest()

    def abandon(self) -> None:
        """Answer all reads with None, because the epoch is over."""
        while self._waiting:
            self._waiting.popleft().message.reply.answer(None)
