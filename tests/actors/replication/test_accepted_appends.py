"""A batch that comes alone is written at once.  Those that come meanwhile share one write, and no answer shows it."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from kraft_trio.channels import Reply
from kraft_trio.errors import DiskFullError
from kraft_trio.messages import ProduceReceived
from kraft_trio.node import Node
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps import disk
from kraft_trio.storage.batches.batch_header import peek_header
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.segments.log_append import PlannedBatch
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import batch_of


class Writes:
    """A LogWatcher that counts the batches of each write."""

    def __init__(self, node: Node) -> None:
        self.batches: list[int] = []
        node.log.watch(self)

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        self.batches.append(len(batches))

    def truncated(self, end_offset: int) -> None: ...

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def trimmed(self, log_start_offset: int) -> None: ...

    def synced(self, end_offset: int) -> None: ...

    def high_watermark_advanced(self, old: int | None, new: int) -> None: ...


async def produce_together(leader: Node, *batches: bytes) -> list[ProducePartitionResponse]:
    """Put the batches into the leader's mailbox in one step, behind one that is not committed yet; return the answers.

    The first answer is that batch's.
    """
    mailbox = leader.election.view.value.leader_mailbox
    assert mailbox is not None
    replies: list[Reply[ProducePartitionResponse]] = []
    for batch in (batch_of(b"0"), *batches):
        replies.append(Reply())
        mailbox.send_nowait(ProduceReceived(batch, peek_header(batch), 5000, replies[-1]))
    return [await reply.receive() for reply in replies]


@on_cluster()
async def test_batches_that_arrive_together_share_a_write(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    writes = Writes(leader)
    answers = await produce_together(leader, batch_of(b"a", b"b"), batch_of(b"c"), batch_of(b"d"))
    assert writes.batches == [1, 3]
    assert [answer.error for answer in answers] == [ErrorCode.none] * 4
    first = answers[1].base_offset
    assert [answer.base_offset for answer in answers] == [first - 1, first, first + 2, first + 3]
    assert values_in(leader) == [b"0", b"a", b"b", b"c", b"d"]


@on_cluster()
async def test_a_write_takes_a_megabyte_at_most_and_a_batch(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    writes = Writes(leader)
    answers = await produce_together(leader, *[batch_of(bytes(600 * 1024))] * 5)
    assert [answer.error for answer in answers] == [ErrorCode.none] * 6
    assert writes.batches == [1, 2, 2, 1]


@on_cluster()
async def test_sequences_hold_among_batches_that_arrive_together(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    first, second = (batch_of(b"%d" % (sequence + 1), producer_id=7, base_sequence=sequence) for sequence in (0, 1))
    gap = batch_of(b"gap", producer_id=7, base_sequence=5)
    of_another = batch_of(b"other", producer_id=8, base_sequence=0)
    answers = await produce_together(leader, first, of_another, second, first, gap)
    assert [answer.error for answer in answers] == [
        *[ErrorCode.none] * 5,
        ErrorCode.out_of_order_sequence_number,
    ]
    assert answers[4].base_offset == answers[1].base_offset
    assert values_in(leader) == [b"0", b"1", b"other", b"2"]


@on_cluster()
async def test_a_failed_write_answers_all_of_its_batches(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    full = cluster.machines[leader.key.id]
    await disk.full_disk(full.id, 20).take(cluster)
    with trio.fail_after(5):
        answers = await produce_together(leader, *[batch_of(b"no room")] * 3)
    assert [answer.error for answer in answers] == [ErrorCode.not_leader_or_follower] * 4
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
