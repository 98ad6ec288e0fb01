"""Fetches that wait at the leader: what ends their wait, and that none of them ends anything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from uuid import UUID

import pytest
import trio
import trio.testing

from kraft_trio.actors.replication.leader_fetches import ANSWERS_PER_TURN, LeaderFetches
from kraft_trio.actors.replication.parked_fetches import ParkingLimits
from kraft_trio.channels import Reply
from kraft_trio.messages import FetchReceived, Stamp
from kraft_trio.protocol.read_barrier import ReadRounds
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.epoch_context import lone_epoch
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID, RawClient, batch_of
from tests.support.trimming import on_trimming_cluster, trimmed

LIMITS = ParkingLimits()
NEVER_THAT_MUCH = 2**30
OVERHEAD = 400
"""Index entries that may be left when nothing waits any more."""


@on_trimming_cluster(voters=1)
async def test_parked_fetch_below_a_trim_is_out_of_range(cluster: Cluster) -> None:
    """At once, and not when its wait is over; the leader continues."""
    leader = await cluster.wait_for_leader()
    stamp = leader.view.stamp
    answers: list[FetchPartitionResponse] = []

    async def park(client: RawClient) -> None:
        answers.append(await client.fetch(0, max_wait_ms=60_000, min_bytes=NEVER_THAT_MUCH, max_bytes=NEVER_THAT_MUCH))

    async with RawClient.connected(cluster, 1) as client, trio.open_nursery() as nursery:
        nursery.start_soon(park, client)
        await trio.testing.wait_all_tasks_blocked()
        assert not answers
        begun = trio.current_time()
        await trimmed(leader)
        await cluster.wait_until(lambda: bool(answers))
        assert trio.current_time() - begun < 10
    assert answers[0].error == ErrorCode.offset_out_of_range
    assert answers[0].log_start_offset > 0
    await leader.append([b"still leading"])
    assert leader.view.stamp == stamp


@on_cluster(voters=1)
async def test_closed_connections_leave_no_parked_fetch(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    assert leader.election.leading is not None
    fetches = leader.election.leading.fetches
    for _ in range(3):
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            for _ in range(20):
                client = await stack.enter_async_context(RawClient.connected(cluster, 1))
                nursery.start_soon(partial(client.fetch, leader.log.end_offset, max_wait_ms=60_000, min_bytes=1))
            await cluster.wait_until(lambda: len(fetches.parked) == 20)
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            await cluster.wait_until(lambda: not fetches.parked)


class Connection:
    """One by which Fetch requests come; there is always memory for an answer."""

    def __init__(self, peer_host: str = "client") -> None:
        self.peer_host = peer_host

    def answer_room(self) -> int:
        return 2**20


class Leading:
    """LeaderFetches by itself, over a log that the test appends to."""

    def __init__(self, log: Log, fetches: LeaderFetches) -> None:
        self.log = log
        self.fetches = fetches
        self.high_watermark = log.end_offset

    def append(self, value: bytes = b"value") -> None:
        self.log.append_as_leader(bytearray(batch_of(value)), 1)
        self.fetches.complete()

    def commit(self) -> None:
        self.high_watermark = self.log.end_offset
        self.fetches.complete()
        self.fetches.spread_high_watermark()

    def park(
        self,
        replica: ReplicaKey | None = None,
        *,
        min_bytes: int = 1,
        asker: Connection | None = None,
        max_wait_ms: int = 60_000,
        known_high_watermark: int = 2**63 - 1,
    ) -> Reply[FetchPartitionResponse]:
        """At the log's end."""
        offset = self.log.end_offset
        partition = FetchPartition(TOPIC, TOPIC_ID, 0, offset, 2**20, high_watermark=known_high_watermark)
        request = FetchRequest(min_bytes=min_bytes, max_wait_ms=max_wait_ms, partitions=(partition,))
        reply: Reply[FetchPartitionResponse] = Reply()
        message = FetchReceived(request, partition, replica, reply, asker)
        if replica is None:
            self.fetches.consumer_fetch(message)
        else:
            self.fetches.replica_fetch(message, replica)
        return reply


@contextmanager
def leading(cluster: Cluster) -> Iterator[Leading]:
    context = lone_epoch(cluster, 1, Stamp(1, 1)).context
    context.log.append_as_leader(bytearray(batch_of(b"first")), 1)
    fetches = LeaderFetches(context, lambda: leader.high_watermark, lambda _deadline: None, ReadRounds())
    leader = Leading(context.log, fetches)
    yield leader


def answered(replies: list[Reply[FetchPartitionResponse]]) -> int:
    return sum(reply.is_answered for reply in replies)


@on_cluster(voters=1, started=())
async def test_five_thousand_reconnects_leave_nothing_behind(cluster: Cluster) -> None:
    with leading(cluster) as leader:
        for number in range(5000):
            consumer = leader.park(asker=Connection(), min_bytes=1 + number)
            replica = leader.park(ReplicaKey(number, UUID(int=number + 1)), known_high_watermark=leader.high_watermark)
            assert len(leader.fetches.parked) == 2
            consumer.abandon()
            replica.abandon()
            assert len(leader.fetches.parked) == 0
            assert leader.fetches.parked.size < OVERHEAD


@on_cluster(voters=1, started=())
async def test_fetch_of_a_lost_connection_is_not_parked(cluster: Cluster) -> None:
    """Its connection has ended while it was on its way to the leader."""
    with leading(cluster) as leader:
        offset = leader.log.end_offset
        partition = FetchPartition(TOPIC, TOPIC_ID, 0, offset, 2**20)
        reply: Reply[FetchPartitionResponse] = Reply()
        reply.abandon()
        request = FetchRequest(min_bytes=1, max_wait_ms=60_000, partitions=(partition,))
        leader.fetches.consumer_fetch(FetchReceived(request, partition, None, reply, Connection()))
        assert len(leader.fetches.parked) == 0


@on_cluster(voters=1, started=())
async def test_one_connection_parks_a_few_fetches(cluster: Cluster) -> None:
    with leading(cluster) as leader:
        greedy, other = Connection(), Connection()
        replies = [leader.park(asker=greedy) for _ in range(LIMITS.by_one_asker + 3)]
        assert answered(replies) == 3
        assert not leader.park(asker=other).is_answered


@on_cluster(voters=1, started=())
async def test_parked_fetches_are_limited_but_voters_are_not(cluster: Cluster) -> None:
    with leading(cluster) as leader:
        consumers = [leader.park(asker=Connection()) for _ in range(LIMITS.consumers + 5)]
        observers = [leader.park(ReplicaKey(n, UUID(int=n))) for n in range(100, 100 + LIMITS.observers + 5)]
        assert (answered(consumers), answered(observers)) == (5, 5)
        assert leader.fetches._context.refusals.waits == 10
        voter = leader.park(cluster.key_of(1))
        assert not voter.is_answered
        leader.append()
        assert voter.is_answered


@on_cluster(voters=1, started=())
async def test_oldest_fetch_of_the_address_with_the_most_makes_room(cluster: Cluster) -> None:
    """A consumer whose Fetch may not wait would ask again at once, and again."""
    with leading(cluster) as leader:
        many = [leader.park(asker=Connection("a")) for _ in range(LIMITS.consumers - 1)]
        others = [leader.park(asker=Connection("b")) for _ in range(3)]
        assert not answered(others)
        assert [reply.is_answered for reply in many[:3]] == [True, True, False]
        assert leader.fetches._context.refusals.waits == 2
        assert leader.park(asker=Connection("a")).is_answered
        assert not answered(others)
        for reply in (*many, *others):
            reply.abandon()
        assert leader.fetches.parked.size < OVERHEAD


@on_cluster(voters=1, started=())
async def test_newer_fetch_of_a_replica_ends_its_earlier_one(cluster: Cluster) -> None:
    with leading(cluster) as leader:
        observer = ReplicaKey(9, NO_DIRECTORY_ID)
        first, second = leader.park(observer), leader.park(observer)
        assert first.is_answered
        assert not second.is_answered
        assert len(leader.fetches.parked) == 1


@pytest.mark.parametrize("event", ["append", "commit", "expire"])
@on_cluster(voters=1, started=())
async def test_events_do_not_look_at_fetches_that_wait_for_more(
    cluster: Cluster, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand consumers wait for a megabyte; other events must not wake them."""
    with leading(cluster) as leader:
        for _ in range(LIMITS.consumers):
            leader.park(min_bytes=2**20)
        reads = 0

        def read(self: Log, *args: int, **given: int) -> bytes:
            nonlocal reads
            reads += 1
            return b""

        monkeypatch.setattr(Log, "read", read)
        sizes = leader.fetches.parked.size
        for _ in range(100):
            match event:
                case "append":
                    leader.append()
                case "commit":
                    leader.append()
                    leader.commit()
                case "expire":
                    leader.fetches.expire(trio.current_time())
        assert reads == 0
        assert len(leader.fetches.parked) == LIMITS.consumers
        assert leader.fetches.parked.size == sizes


@on_cluster(voters=1, started=())
async def test_one_commit_answers_many_fetches_in_turns(cluster: Cluster) -> None:
    with leading(cluster) as leader:
        replies = [leader.park() for _ in range(3 * ANSWERS_PER_TURN)]
        leader.append()
        assert answered(replies) == 0
        leader.commit()
        assert answered(replies) == ANSWERS_PER_TURN
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.fetches.complete_left)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert answered(replies) == len(replies)


@on_cluster(voters=1, started=())
async def test_consumer_waits_for_the_bytes_it_asked_for(cluster: Cluster) -> None:
    """Committed ones, counted from its own offset."""
    with leading(cluster) as leader:
        size = len(batch_of(bytes(1000)))
        reply = leader.park(min_bytes=3 * size)
        for _ in range(2):
            leader.append(bytes(1000))
            leader.commit()
        assert not reply.is_answered
        leader.append(bytes(1000))
        assert not reply.is_answered
        leader.commit()
        assert reply.is_answered
        assert len(reply.value.records) == 3 * size
