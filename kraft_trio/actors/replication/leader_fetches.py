"""Answers the Fetch requests to a leader, at once or when there is news."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.parked_fetches import ParkedFetches, ParkingLimits
from kraft_trio.messages import FetchReceived
from kraft_trio.protocol.read_barrier import NO_ROUND, ReadRounds
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.apis.fetch import UNSUPPORTED_HIGH_WATERMARK, FetchPartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

HIGH_WATERMARK_NEWS_DELAY_S = 0.003

MAX_FETCH_BYTES = 8 * 1024 * 1024
MAX_WAIT_MS = 60_000
"""Limits for the records and the wait of one Fetch.  The first batch is sent whatever its size."""

ANSWERS_PER_TURN: Final = 32
BYTES_PER_TURN: Final = MAX_FETCH_BYTES
"""How many bytes of due responses are sent before other tasks run."""


class LeaderFetches:
    """Answers and parks the Fetch requests of one leader's epoch.

    Each request is answered once: when there are records or a newer high watermark for it, when its wait is over, when
    the log is trimmed above its offset, or when the epoch ends.  A request whose connection has closed is dropped.
    `high_watermark` returns the leader's (exclusive), or None while it is unknown.  `expire_at` is called with the time
    on Trio's clock at which `expire` must be called.  While a read waits, each response to a voter has its round.
    """

    def __init__(
        self,
        context: EpochContext,
        high_watermark: Callable[[], int | None],
        expire_at: Callable[[float], None],
        rounds: ReadRounds,
    ) -> None:
        self._context = context
        self._log = context.log
        self._rounds = rounds
        self._high_watermark = high_watermark
        self._expire_at = expire_at
        config = context.config
        self.parked = ParkedFetches(
            ParkingLimits(
                config.max_waiting_fetches, config.max_waiting_fetches_per_connection, config.max_waiting_observers
            )
        )
        self.bytes_given = 0
        """Bytes of records sent in this epoch."""
        self._due_left = trio.Event()

    def consumer_fetch(self, message: FetchReceived) -> None:
        """Answer or park a consumer's Fetch, which gets committed records only."""
        if message.partition.fetch_offset > self._log.end_offset:
            self.answer(message, error=ErrorCode.offset_out_of_range)
            return
        if self._complete_with_records(message):
            return
        wait_s = self._wait_s(message)
        if message.request.min_bytes <= 0 or wait_s <= 0:
            self._answer_with_what_there_is(message)
            return
        if not self.parked.has_room_for_consumer(message.asker):
            other = self.parked.take_for_consumer(message.asker)
            if other is None:
                self._refuse_wait(message)
                return
            self._context.refusals.waits += 1
            self._answer_parked(other)
        offset = message.partition.fetch_offset
        deadline = trio.current_time() + wait_s
        self.parked.park_consumer(message, deadline, self._log.bytes_before(offset) + self._wanted_bytes(message))
        self._expire_at(deadline)

    def _refuse_wait(self, message: FetchReceived) -> None:
        self._context.refusals.waits += 1
        self._answer_with_what_there_is(message)

    def replica_fetch(self, message: FetchReceived, replica: ReplicaKey) -> None:
        """Answer or park a replica's Fetch that agrees with the log.  Its earlier Fetch is answered first."""
        earlier = self.parked.take_replica(replica)
        if earlier is not None:
            self._answer_parked(earlier)
        if self._complete_with_records(message):
            return
        is_voter = self._log.voters.voters.is_voter(replica)
        if self._rounds.newest and is_voter and not self._rounds.was_given(replica, self._rounds.newest):
            self._answer_with_what_there_is(message)
            return
        knows_newer = self._knows_newer_high_watermark(message)
        wait_s = self._wait_s(message)
        if knows_newer:
            wait_s = min(wait_s, HIGH_WATERMARK_NEWS_DELAY_S)
        if wait_s <= 0:
            self._answer_with_what_there_is(message)
            return
        if not self.parked.has_room_for_replica(is_voter=is_voter):
            self._refuse_wait(message)
            return
        deadline = trio.current_time() + wait_s
        can_be_told = message.partition.high_watermark != UNSUPPORTED_HIGH_WATERMARK
        self.parked.park_replica(
            message, replica, deadline, is_voter=is_voter, awaits_news=can_be_told and not knows_newer
        )
        self._expire_at(deadline)

    @staticmethod
    def _wait_s(message: FetchReceived) -> float:
        return min(message.request.max_wait_ms, MAX_WAIT_MS) / 1000

    # What ends a wait

    def complete(self) -> None:
        """Answer the parked fetches that have new records, or whose offset is below the log's start.

        Answers one turn's worth at once, voters first; `complete_left` answers the rest.
        """
        if not self._complete_some():
            self._due_left.set()

    async def complete_left(self) -> None:
        """Answer what `complete` left unanswered, one turn's worth at a time, until cancelled."""
        while True:
            await self._due_left.wait()
            while not self._complete_some():
                await trio.lowlevel.checkpoint()
            self._due_left = trio.Event()

    def _complete_some(self) -> bool:
        """Answer one turn's worth.  Returns whether that was all."""
        bytes_before = self.bytes_given
        for _ in range(ANSWERS_PER_TURN):
            message = self._take_due()
            if message is None:
                return True
            self._answer_parked(message)
            if self.bytes_given - bytes_before >= BYTES_PER_TURN:
                break
        return False

    def _take_due(self) -> FetchReceived | None:
        parked = self.parked
        if not parked:
            return None
        message = parked.take_replica_below(self._log.end_offset) or parked.take_consumer_below(
            self._log.log_start_offset
        )
        if message is None and parked.has_consumers and (high_watermark := self._high_watermark()) is not None:
            message = parked.take_satisfied_consumer(self._log.bytes_before(high_watermark))
        return message

    def spread_high_watermark(self) -> None:
        """Tell parked replicas of the high watermark with the next records, or after a short delay (KIP-1166).

        Under a steady stream of appends, the delay saves one round trip to each follower per append.
        """
        high_watermark = self._high_watermark()
        if high_watermark is not None:
            soon = trio.current_time() + HIGH_WATERMARK_NEWS_DELAY_S
            if self.parked.hurry_uninformed(high_watermark, soon):
                self._expire_at(soon)

    def give_round(self) -> None:
        """Answer the parked fetches of all voters, so that they return the newest round."""
        while (message := self.parked.take_voter()) is not None:
            self._answer_parked(message)

    def expire(self, now_s: float) -> float:
        """Answer one turn's worth of expired fetches.  Returns when to call again; infinity if nothing waits."""
        for _ in range(ANSWERS_PER_TURN):
            message = self.parked.take_expired(now_s)
            if message is None:
                break
            self._answer_parked(message)
        return self.parked.next_deadline

    def abandon_some(self) -> bool:
        """Answer one turn's worth, because the epoch is over.  Returns whether that was all."""
        for _ in range(ANSWERS_PER_TURN):
            message = self.parked.take_any()
            if message is None:
                return True
            self.answer(message, error=ErrorCode.not_leader_or_follower)
        return False

    def answer(
        self,
        message: FetchReceived,
        records: bytes = b"",
        *,
        error: ErrorCode = ErrorCode.none,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
    ) -> None:
        """Answer a request, and add the log's offsets and the leader."""
        high_watermark = self._high_watermark()
        known = -1 if high_watermark is None else high_watermark
        message.reply.answer(
            FetchPartitionResponse(
                topic_name=message.partition.topic_name,
                topic_id=message.partition.topic_id,
                partition=message.partition.partition,
                error=error,
                high_watermark=known,
                last_stable_offset=known,
                log_start_offset=self._log.log_start_offset,
                records=records,
                diverging=diverging,
                leader_id=self._context.key.id,
                leader_epoch=self._context.epoch,
                snapshot_id=snapshot_id,
                read_round=self._round_for(message.replica) if self._rounds.newest else NO_ROUND,
            )
        )

    def _round_for(self, replica: ReplicaKey | None) -> int:
        is_voter = replica is not None and self._log.voters.voters.is_voter(replica)
        return self._rounds.give(replica) if replica is not None and is_voter else NO_ROUND

    def _answer_parked(self, message: FetchReceived) -> None:
        """Answer a parked request.  An error concerns only this request, because others caused this step."""
        try:
            self._answer_with_what_there_is(message)
        except Exception as error:
            self._context.failures.note(error, "Fetch")
            if not message.reply.is_answered:
                self.answer(message, error=ErrorCode.unknown_server_error)

    def _answer_with_what_there_is(self, message: FetchReceived) -> None:
        """Answer a request whose wait is over, even with fewer bytes than it asked for."""
        high_watermark = self._high_watermark() if message.replica is None else self._log.end_offset
        offset = message.partition.fetch_offset
        if offset < self._log.log_start_offset:
            self.answer(message, error=ErrorCode.offset_out_of_range)
        elif high_watermark is None or offset >= high_watermark:
            self.answer(message)
        else:
            self.answer(message, self._read(message, high_watermark))

    def _complete_with_records(self, message: FetchReceived) -> bool:
        """Answer if there are enough records, or never will be.  Returns whether it did."""
        offset = message.partition.fetch_offset
        if offset >= self._log.log_start_offset:
            if message.replica is not None:
                if offset >= self._log.end_offset:
                    return False
            else:
                high_watermark = self._high_watermark()
                if high_watermark is None or offset >= high_watermark:
                    return False
                wanted = self._wanted_bytes(message)
                if wanted > 1 and self._log.bytes_before(high_watermark) - self._log.bytes_before(offset) < wanted:
                    return False
        self._answer_with_what_there_is(message)
        return True

    @staticmethod
    def _wanted_bytes(message: FetchReceived) -> int:
        """How many committed bytes a consumer waits for."""
        request = message.request
        return max(1, min(request.min_bytes, message.partition.max_bytes, request.max_bytes, MAX_FETCH_BYTES))

    def _knows_newer_high_watermark(self, message: FetchReceived) -> bool:
        """Whether the leader knows a newer high watermark than the replica, and the replica can be told (KIP-1166)."""
        known, now_known = message.partition.high_watermark, self._high_watermark()
        can_be_told = message.replica is not None and known != UNSUPPORTED_HIGH_WATERMARK
        return can_be_told and now_known is not None and known < now_known

    def _read(self, message: FetchReceived, end_offset: int | None) -> bytes:
        """Read as much as the request and the memory allow: nothing, or at least one batch."""
        max_bytes = min(message.partition.max_bytes, message.request.max_bytes, MAX_FETCH_BYTES)
        if message.asker is not None:
            room = message.asker.answer_room()
            if not room:
                return b""
            max_bytes = min(max_bytes, room)
        records = self._log.read(message.partition.fetch_offset, max_bytes, end_offset)
        self.bytes_given += len(records)
        return records
