"""Fetch requests to a leader: answered at once, or when there is something to tell."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.messages import FetchReceived
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.wire.apis.fetch import UNSUPPORTED_HIGH_WATERMARK, FetchPartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

HIGH_WATERMARK_NEWS_DELAY_S = 0.003

MAX_FETCH_BYTES = 55 * 1024 * 1024
MAX_WAIT_MS = 60_000
"""What one Fetch may ask for at most, in records and in waiting, whatever it says."""


@attrs.define(eq=False)
class _ParkedFetch:
    """A Fetch that waits for records or for a newer high watermark, until `deadline` (Trio's clock)."""

    message: FetchReceived
    deadline: float


class LeaderFetches:
    """The answers to the Fetch requests of one leader's epoch, and those that wait for theirs.

    Each is answered once: when records have come for it, or a newer high watermark, when its wait is over, or when the
    epoch is.  `high_watermark` is the leader's (exclusive), None while it is unknown; `expire_at` is told when `expire`
    is to be called (Trio's clock).
    """

    def __init__(
        self, context: EpochContext, high_watermark: Callable[[], int | None], expire_at: Callable[[float], None]
    ) -> None:
        self._context = context
        self._log = context.log
        self._high_watermark = high_watermark
        self._expire_at = expire_at
        self._parked: list[_ParkedFetch] = []

    def consumer_fetch(self, message: FetchReceived) -> None:
        """A Fetch by somebody who is no replica: what is committed, from an offset that the log has."""
        offset = message.partition.fetch_offset
        if not self._log.log_start_offset <= offset <= self._log.end_offset:
            self.answer(message, error=ErrorCode.offset_out_of_range)
            return
        self.answer_or_park(message)

    def answer_or_park(self, message: FetchReceived) -> None:
        """Answer with the records that there are; where there are none, wait as long as the request says."""
        if self._complete_with_records(message):
            return
        wait_s = min(message.request.max_wait_ms, MAX_WAIT_MS) / 1000
        if message.replica is None and message.request.min_bytes <= 0:
            wait_s = 0
        elif self._knows_newer_high_watermark(message):
            wait_s = min(wait_s, HIGH_WATERMARK_NEWS_DELAY_S)
        if wait_s <= 0:
            self._answer_with_what_there_is(message)
            return
        parked = _ParkedFetch(message, trio.current_time() + wait_s)
        self._parked.append(parked)
        self._expire_at(parked.deadline)

    def complete(self) -> None:
        """Answer the parked fetches that records have come for."""
        if self._parked:
            self._parked = [parked for parked in self._parked if not self._complete_with_records(parked.message)]

    def spread_high_watermark(self) -> None:
        """Let parked replica fetches learn of it (KIP-1166) soon: with the next records, or after a short delay.

        Under a steady stream of appends that saves a round trip to every follower for each of them.
        """
        soon = trio.current_time() + HIGH_WATERMARK_NEWS_DELAY_S
        for parked in self._parked:
            if parked.deadline > soon and self._knows_newer_high_watermark(parked.message):
                parked.deadline = soon
                self._expire_at(soon)

    def expire(self, now_s: float) -> float:
        """Answer those whose wait is over; when the next one's is, infinity where none waits."""
        for parked in [parked for parked in self._parked if parked.deadline <= now_s]:
            self._parked.remove(parked)
            self._answer_with_what_there_is(parked.message)
        return min((parked.deadline for parked in self._parked), default=math.inf)

    def abandon(self) -> None:
        """The epoch is over."""
        for parked in self._parked:
            # A fault in the middle of completing them leaves some that have been answered.
            if not parked.message.reply.is_answered:
                self.answer(parked.message, error=ErrorCode.not_leader_or_follower)
        self._parked.clear()

    def answer(
        self,
        message: FetchReceived,
        records: bytes = b"",
        *,
        error: ErrorCode = ErrorCode.none,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
    ) -> None:
        """Answer that request with this, and with what this leader knows of the log and of itself."""
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
            )
        )

    def _answer_with_what_there_is(self, message: FetchReceived) -> None:
        """The wait is over: also fewer bytes than were asked for are better than none."""
        high_watermark = self._high_watermark()
        is_consumer = message.replica is None
        has_records = high_watermark is not None and message.partition.fetch_offset < high_watermark
        records = self._read(message, high_watermark) if is_consumer and has_records else b""
        self.answer(message, records)

    def _complete_with_records(self, message: FetchReceived) -> bool:
        if message.replica is not None:
            if message.partition.fetch_offset >= self._log.end_offset:
                return False
            self.answer(message, self._read(message, None))
            return True
        high_watermark = self._high_watermark()
        if high_watermark is None or message.partition.fetch_offset >= high_watermark:
            return False
        records = self._read(message, high_watermark)
        wanted = min(message.request.min_bytes, message.partition.max_bytes, message.request.max_bytes)
        if len(records) < wanted and message.request.max_wait_ms > 0:
            return False
        self.answer(message, records)
        return True

    def _knows_newer_high_watermark(self, message: FetchReceived) -> bool:
        """Whether a replica, by what its request says, can be told a newer high watermark (KIP-1166)."""
        known, now_known = message.partition.high_watermark, self._high_watermark()
        can_be_told = message.replica is not None and known != UNSUPPORTED_HIGH_WATERMARK
        return can_be_told and now_known is not None and known < now_known

    def _read(self, message: FetchReceived, end_offset: int | None) -> bytes:
        max_bytes = min(message.partition.max_bytes, message.request.max_bytes, MAX_FETCH_BYTES)
        return self._log.read(message.partition.fetch_offset, max_bytes, end_offset)
