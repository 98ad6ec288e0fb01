"""The appends that the leader has accepted and not written yet: those that arrive together share one write."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.pending_appends import PendingAppends, error_of_unknown_fate
from kraft_trio.errors import StorageFailure
from kraft_trio.messages import ProduceReceived
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

BYTES_PER_WRITE: Final = 1024 * 1024
"""A write has at most this size plus one batch."""


class AcceptedAppends:
    """The Produce requests of one leader's epoch whose batches the next `write` appends, in the order of `add`.

    The caller writes before it waits for anything, so no batch is left behind.
    """

    def __init__(self, context: EpochContext, pending: PendingAppends) -> None:
        """`pending` gets the requests that are in the log."""
        self._context = context
        self._pending = pending
        self._messages: list[ProduceReceived] = []
        self._producer_ids: set[int] = set()
        self._bytes = 0

    def has_batch_of(self, producer_id: int) -> bool:
        """Whether a batch of that producer is still to be written, so that the log does not know its sequence."""
        return producer_id in self._producer_ids

    def add(self, message: ProduceReceived) -> None:
        """Accept a request, and write if there is enough for one write.  Raises what `write` raises."""
        self._messages.append(message)
        self._producer_ids.add(message.header.producer_id)
        self._bytes += len(message.records)
        if self._bytes >= BYTES_PER_WRITE:
            self.write()

    def write(self) -> None:
        """Append the batches.  Raises the errors that end a node, among them DiskFullError and StorageFailure."""
        if not self._messages:
            return
        buffer = bytearray().join([message.records for message in self._messages])
        try:
            appended = self._context.log.append_as_leader(buffer, self._context.epoch)
        except StorageFailure:
            if self._context.log.poisoned is None:
                self._refuse(ErrorCode.not_leader_or_follower, "the leader's disk is full")
                raise
            # The write may have stored some of the batches, whole.
            for message in self.take_all():
                error = error_of_unknown_fate(may_be_sent_again=message.header.producer_id >= 0)
                reason = "the leader's disk has failed; the batch may be in its log"
                message.reply.answer(ProducePartitionResponse.failed(error, reason))
            raise
        except Exception as error:
            self._context.failures.note(error, "Produce")
            self._refuse(ErrorCode.unknown_server_error)
            return
        now_s, offset = trio.current_time(), appended.base_offset
        for message in self.take_all():
            next_offset = offset + message.header.last_offset_delta + 1
            self._pending.await_commit(message, offset, next_offset, now_s)
            offset = next_offset

    def take_all(self) -> list[ProduceReceived]:
        """Hand the requests back, unanswered."""
        messages, self._messages, self._bytes = self._messages, [], 0
        self._producer_ids.clear()
        return messages

    def _refuse(self, error: ErrorCode, reason: str | None = None) -> None:
        for message in self.take_all():
            message.reply.answer(ProducePartitionResponse.failed(error, reason))
