"""Records that a leader of today refuses, in a log that has them all the same: from an older leader, or a newer one."""

from __future__ import annotations

from kraft_trio.channels import Reply, deliver
from kraft_trio.messages import ProduceReceived
from kraft_trio.node import Node
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, peek_header
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode


async def poison(leader: Node, *values: bytes) -> int:
    """Have the leader append values as one batch, whatever they are.  Returns the offset of the first."""
    batch = encode_batch([NewRecord(value) for value in values], timestamp_ms=0)
    reply: Reply[ProducePartitionResponse] = Reply()
    assert await deliver(leader.view.leader_mailbox, ProduceReceived(batch, peek_header(batch), 30_000, reply))
    answer = await reply.receive()
    assert answer.error == ErrorCode.none
    return answer.base_offset
