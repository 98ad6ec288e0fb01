"""The appends that wait for the high watermark to pass them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from kraft_trio.actors.waiting.removable_heap import RemovableHeap
from kraft_trio.channels import Reply
from kraft_trio.messages import ProduceReceived
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

ANSWERS_PER_TURN: Final = 256
"""How many appends are answered as expired or abandoned before other tasks run."""


@attrs.define(eq=False)
class _PendingAppend:
    """A Produce that waits for the high watermark to reach `next_offset` (exclusive end of its batch)."""

    base_offset: int
    next_offset: int
    reply: Reply[ProducePartitionResponse]
    may_be_sent_again: bool
    """Whether the batch has a producer id, by which every leader recognizes it."""
    appended_before_ms: int


def error_of_unknown_fate(*, may_be_sent_again: bool) -> ErrorCode:
    """What to answer to an append that may be in the log, and may never commit.

    librdkafka takes NOT_LEADER_OR_FOLLOWER for a promise that nothing was appended, and sends the batch again even with
    `retries=0`.  REQUEST_TIMED_OUT says that the fate of the batch is unknown.
    """
    return ErrorCode.not_leader_or_follower if may_be_sent_again else ErrorCode.request_timed_out


class PendingAppends:
    """The Produce requests of one leader's epoch that are in the log and not answered yet.

    Each is answered once: when it is committed, when its time is over, or when the epoch ends.  A request whose
    connection has closed is dropped.  `expire_at` is called with the time on Trio's clock at which `expire` is due.
    """

    def __init__(self, log: Log, expire_at: Callable[[float], None]) -> None:
        self._log = log
        self._expire_at = expire_at
        self._by_end: RemovableHeap[_PendingAppend] = RemovableHeap()
        self._by_deadline: RemovableHeap[_PendingAppend] = RemovableHeap()

    def __len__(self) -> int:
        return len(self._by_end)

    def await_commit(
        self,
        message: ProduceReceived,
        base_offset: int,
        next_offset: int,
        now_s: float,
        appended_before_ms: int = -1,
    ) -> None:
        """Answer the request when everything below `next_offset` is committed.

        If the batch was in the log before, `appended_before_ms` tells since when.  The answer repeats that, so that the
        client can tell it from a batch that was appended now.
        """
        may_be_sent_again = message.header.producer_id >= 0
        pending = _PendingAppend(base_offset, next_offset, message.reply, may_be_sent_again, appended_before_ms)
        if self._is_committed(next_offset):
            self._acknowledge(pending, self._log.log_start_offset)
            return
        deadline = now_s + message.timeout_ms / 1000
        self._by_end.put(pending, next_offset)
        self._by_deadline.put(pending, deadline)
        message.reply.when_abandoned(lambda: self._leave(pending))
        self._expire_at(deadline)

    def acknowledge_up_to(self, high_watermark: int) -> None:
        """Answer the appends that end at or below the high watermark (exclusive)."""
        log_start_offset = self._log.log_start_offset
        while (pending := self._by_end.pop_up_to(high_watermark)) is not None:
            self._by_deadline.discard(pending)
            self._acknowledge(pending, log_start_offset)

    def expire(self, now_s: float) -> float:
        """Answer one turn's worth of expired appends.  Returns when to call again; infinity if nothing waits."""
        for _ in range(ANSWERS_PER_TURN):
            pending = self._by_deadline.pop_up_to(now_s)
            if pending is None:
                break
            self._by_end.discard(pending)
            pending.reply.answer(
                ProducePartitionResponse.failed(
                    ErrorCode.request_timed_out,
                    f"appended at offset {pending.base_offset}, not committed in time: it may still commit",
                )
            )
        return self._by_deadline.lowest_key

    def abandon_some(self) -> bool:
        """Answer one turn's worth, because the epoch is over.  Returns whether that was all."""
        for _ in range(ANSWERS_PER_TURN):
            pending = self._by_end.pop_up_to(self._by_end.lowest_key)
            if pending is None:
                return True
            self._by_deadline.discard(pending)
            self._abandon(pending)
        return False

    def _abandon(self, pending: _PendingAppend) -> None:
        """Answer an append of a lost epoch, which a later leader may commit."""
        pending.reply.answer(
            ProducePartitionResponse(
                error=error_of_unknown_fate(may_be_sent_again=pending.may_be_sent_again),
                base_offset=pending.base_offset,
                error_message="lost the leadership before it committed",
            )
        )

    def _leave(self, pending: _PendingAppend) -> None:
        """Drop a request that nobody waits for.  Its batch still commits or vanishes."""
        self._by_end.discard(pending)
        self._by_deadline.discard(pending)

    def _is_committed(self, next_offset: int) -> bool:
        high_watermark = self._log.high_watermark
        return high_watermark is not None and next_offset <= high_watermark

    @staticmethod
    def _acknowledge(pending: _PendingAppend, log_start_offset: int) -> None:
        pending.reply.answer(
            ProducePartitionResponse(
                error=ErrorCode.none,
                base_offset=pending.base_offset,
                log_append_time_ms=pending.appended_before_ms,
                log_start_offset=log_start_offset,
            )
        )
