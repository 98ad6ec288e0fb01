"""An append in one epoch of this node's leadership, which never takes effect in another epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import NotLeaderError, OutcomeUnknownError, RecordTooLargeError
from kraft_trio.idempotent_producer import failure_of
from kraft_trio.messages import ProduceReceived, QuorumView
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, peek_header
from kraft_trio.storage.batches.record_limits import MAX_RECORDS
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode

NO_TIMEOUT_MS: Final = 2**31 - 1


async def append_in_epoch(
    view: QuorumView, epoch: int, records: Sequence[NewRecord], *, timestamp_ms: int, max_message_bytes: int
) -> int:
    """Append records as one batch, wait until it is committed, and return its first offset.

    The batch goes once to the mailbox of this epoch's LeaderReplication.  No other leader ever gets it, so it needs no
    producer id.

    Raises NotLeaderError if this node does not lead the epoch, or the leadership ended before the append.  Raises
    OutcomeUnknownError if it ended between append and commit.  Also raises RecordTooLargeError and RefusedError.
    """
    mailbox = view.leader_mailbox if view.epoch == epoch else None
    if mailbox is None:
        role = type(view.role).__name__
        raise NotLeaderError(f"append: epoch {epoch}: this node does not lead it; its role is {role} in {view.epoch}")
    if len(records) > MAX_RECORDS:
        raise RecordTooLargeError(f"values: {len(records)} for one batch, which has {MAX_RECORDS} at most")
    batch = encode_batch(records, timestamp_ms=timestamp_ms)
    if len(batch) > max_message_bytes:
        raise RecordTooLargeError(
            f"values: one batch of {len(batch)} bytes, message.max.bytes allows {max_message_bytes}"
        )
    reply: Reply[ProducePartitionResponse] = Reply()
    if not await deliver(mailbox, ProduceReceived(batch, peek_header(batch), NO_TIMEOUT_MS, reply)):
        raise NotLeaderError(f"append: epoch {epoch} has ended")
    try:
        answer = await reply.receive()
    except BaseException:
        if not reply.is_answered:
            reply.abandon()
        raise
    if answer.error == ErrorCode.none:
        return answer.base_offset
    if answer.error == ErrorCode.not_leader_or_follower:
        raise NotLeaderError(f"append: epoch {epoch} has ended")
    if answer.error == ErrorCode.request_timed_out:
        raise OutcomeUnknownError(
            f"append: epoch {epoch} ended before offset {answer.base_offset} committed; a later leader may commit it"
        )
    raise failure_of(answer)
