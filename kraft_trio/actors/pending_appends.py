"""Appends that wait for the high watermark to pass them, and how each is answered."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import attrs
import trio

from kraft_trio.messages import ProduceReceived, Reply
from kraft_trio.storage.log import Log
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode


@attrs.define(eq=False)
class _PendingAppend:
    """A Produce that waits for the high watermark to reach `next_offset` (exclusive end of its batch)."""

    base_offset: int
    next_offset: int
    deadline: float
    reply: Reply[ProducePartitionResponse]


class PendingAppends:
    """The Produce requests of one leader's epoch that are in its log and not answered yet.

    Each is answered once: when it has committed, when its time is over, or when the epoch is.  `expire_at` is told when
    `expire` is to be called (Trio's clock).
    """

    def __init__(self, log: Log, expire_at: Callable[[float], None]) -> None:
        self._log = log
        self._expire_at = expire_at
        self._pending: deque[_PendingAppend] = deque()
        """In the order of their offsets, which a repeated batch does not come in."""

    def await_commit(self, message: ProduceReceived, base_offset: int, next_offset: int) -> None:
        """Answer that request when what it wants appended, up to `next_offset` (exclusive), has committed."""
        deadline = trio.current_time() + message.timeout_ms / 1000
        pending = _PendingAppend(base_offset, next_offset, deadline, message.reply)
        if self._is_committed(next_offset):
            self._acknowledge(pending)
            return
        place = len(self._pending)
        while place and self._pending[place - 1].next_offset > next_offset:
            place -= 1
        self._pending.insert(place, pending)
        self._expire_at(deadline)

    def acknowledge_up_to(self, high_watermark: int) -> None:
        """Everything below the high watermark (exclusive) has committed."""
        while self._pending and self._pending[0].next_offset <= high_watermark:
            self._acknowledge(self._pending.popleft())

    def expire(self, now_s: float) -> float:
        """Answer those whose time has come; when the next one's will, infinity where none waits."""
        for pending in [pending for pending in self._pending if pending.deadline <= now_s]:
            self._pending.remove(pending)
            pending.reply.answer(
                ProducePartitionResponse.failed(
                    ErrorCode.request_timed_out,
                    f"appended at offset {pending.base_offset}, not committed in time: it may still commit",
                )
            )
        return min((pending.deadline for pending in self._pending), default=math.inf)

    def abandon(self) -> None:
        """The epoch is over."""
        for pending in self._pending:
            pending.reply.answer(
                ProducePartitionResponse.failed(
                    ErrorCode.not_leader_or_follower, "lost the leadership before it committed"
                )
            )
        self._pending.clear()

    def _is_committed(self, next_offset: int) -> bool:
        return self._log.high_watermark is not None and next_offset <= self._log.high_watermark

    def _acknowledge(self, pending: _PendingAppend) -> None:
        pending.reply.answer(
            ProducePartitionResponse(
                error=ErrorCode.none, base_offset=pending.base_offset, log_start_offset=self._log.log_start_offset
            )
        )
