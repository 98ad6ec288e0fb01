"""Batches that take long to check: who checks them, in which order they are appended, and what the leader does then."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
import trio.testing

from kraft_trio.actors.application.record_checker import RecordChecker
from kraft_trio.errors import ProtocolError, RecordTooLargeError
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import peek_header
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.batches.record_limits import MAX_HEADERS, MAX_RECORDS
from kraft_trio.wire.api import PRODUCE
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support import bombs
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID, RawClient, batch_of

pytestmark = pytest.mark.rotating(2)

T = TypeVar("T")
CAP = 64 * bombs.MEBIBYTE


class HeldThread:
    """Runs no job before it is let go."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.jobs = 0
        self.running = 0

    async def run(self, job: Callable[[], T]) -> T:
        self.jobs += 1
        self.running += 1
        assert self.running == 1, "two checks at a time"
        await self.go.wait()
        await trio.lowlevel.checkpoint()
        self.running -= 1
        return job()


async def checked(checker: RecordChecker, batch: bytes, address: str = "client") -> None:
    await checker.check(batch, peek_header(batch), address)


async def test_small_batches_never_leave_the_loop() -> None:
    thread = HeldThread()
    checker = RecordChecker(thread, CAP, CAP)
    await checked(checker, batch_of(*[b"value"] * 100))
    await checked(checker, batch_of(bytes(900_000)))
    await checked(checker, bombs.tiny_records(Compression.NONE, 1000))
    for codec in bombs.CODECS:
        await checked(checker, bombs.tiny_records(codec, 500))
    assert thread.jobs == 0


@pytest.mark.parametrize("codec", bombs.CODECS, ids=lambda codec: codec.name)
async def test_long_checks_leave_the_loop_one_at_a_time(codec: Compression, autojump_clock: object) -> None:
    thread = HeldThread()
    checker = RecordChecker(thread, CAP, CAP)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(checked, checker, bombs.tiny_records(codec, 20_000))
            nursery.start_soon(checked, checker, bombs.expansion(codec, 3_000_000))
        await trio.testing.wait_all_tasks_blocked()
        assert thread.jobs == 1
        # Meanwhile the small ones pass.
        await checked(checker, batch_of(b"value"))
        thread.go.set()
    assert thread.jobs > 6


async def test_long_checks_of_one_address_keep_others_waiting_for_one(autojump_clock: object) -> None:
    thread = HeldThread()
    checker = RecordChecker(thread, CAP, CAP)
    done: list[str] = []

    async def check(address: str) -> None:
        await checked(checker, bombs.tiny_records(Compression.ZSTD, 20_000), address)
        done.append(address)

    async with trio.open_nursery() as nursery:
        for address in ("flood",) * 8 + ("other",):
            nursery.start_soon(check, address)
            await trio.testing.wait_all_tasks_blocked()
        thread.go.set()
    assert done.index("other") <= 2


async def test_large_uncompressed_batches_leave_the_loop() -> None:
    thread = HeldThread()
    thread.go.set()
    checker = RecordChecker(thread, CAP, CAP)
    await checked(checker, bombs.tiny_records(Compression.NONE, 20_000))
    await checked(checker, bombs.headers_everywhere(Compression.NONE, count=100, headers_each=900))
    assert thread.jobs > 2


async def test_cancelled_check_does_not_keep_its_turn(autojump_clock: object) -> None:
    thread = HeldThread()
    checker = RecordChecker(thread, CAP, CAP)
    batch = bombs.tiny_records(Compression.ZSTD, 20_000)
    with trio.move_on_after(1):
        await checked(checker, batch)
    thread.running = 0
    thread.go.set()
    await checked(checker, batch)


async def test_refusal_comes_out_of_the_thread() -> None:
    thread = HeldThread()
    thread.go.set()
    with pytest.raises(ProtocolError, match="more than 262144 record headers"):
        await checked(
            RecordChecker(thread, CAP, CAP), bombs.headers_everywhere(Compression.LZ4, count=1000, headers_each=300)
        )


BOMBS = {
    "headers": bombs.many_headers(Compression.ZSTD, 500_000),
    "headers, small": bombs.many_headers(Compression.ZSTD, MAX_HEADERS + 1),
    "records": bombs.tiny_records(Compression.ZSTD, MAX_RECORDS + 1),
    "expansion": bombs.bomb_of_small_values(Compression.ZSTD, 160),
    "not in their place": bombs.repeated_record(Compression.GZIP, 100_000),
    "claim": bombs.claimed_count(Compression.SNAPPY),
    "window": bombs.zstd_window(),
    "Java cannot read it": bombs.linked_blocks(),
    "later than its records": bombs.later_than_its_records(),
    "later than its records, compressed": bombs.later_than_its_records(codec=Compression.LZ4),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_and_commits_go_on(name: str) -> None:
    @on_cluster()
    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        epoch = leader.view.epoch
        async with RawClient.connected(cluster, leader.key.id) as attacker:
            for _ in range(3):
                answer = await attacker.produce(BOMBS[name])
                assert answer.error is ErrorCode.invalid_record
        async with RawClient.connected(cluster, leader.key.id) as client:
            assert (await client.produce(batch_of(b"value"))).error is ErrorCode.none
        assert (await cluster.wait_for_leader()).view.epoch == epoch

    run()


@pytest.mark.parametrize("codec", bombs.CODECS, ids=lambda codec: codec.name)
@on_cluster(settings={"message.max.bytes": "100000"})
async def test_record_is_bounded_like_a_batch_once_decompressed(cluster: Cluster, codec: Compression) -> None:
    """A state machine keeps the decompressed record, so its decompressed size counts."""
    leader = await cluster.wait_for_leader()
    around = len(bombs.record(0, bytes(90_000))) - 90_000
    async with RawClient.connected(cluster, leader.key.id) as client:
        for value_bytes, error in ((100_000 - around, ErrorCode.none), (100_001, ErrorCode.message_too_large)):
            answer = await client.produce(bombs.expansion(codec, value_bytes))
            assert answer.error is error, answer
        assert "at most 100000 allowed" in (answer.error_message or "")
        # A batch of several records may be larger.
        assert (await client.produce(bombs.bomb_of_small_values(codec, 20, 50_000))).error is ErrorCode.none


@on_cluster()
async def test_order_of_a_connection_survives_long_checks(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        for index in range(4):
            batch = bombs.tiny_records(Compression.ZSTD, 5000) if index % 2 == 0 else batch_of(b"small")
            partition = ProducePartition(TOPIC, TOPIC_ID, 0, batch)
            await client.connection.begin(PRODUCE, ProduceRequest(-1, 30_000, (partition,)))
        answers = [await client.connection.finish(PRODUCE) for _ in range(4)]
    bases = [answer.partitions[0].base_offset for answer in answers]
    assert [second - first for first, second in itertools.pairwise(bases)] == [5000, 1, 5000]


@on_cluster()
async def test_append_never_makes_a_batch_that_produce_refuses(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    with pytest.raises(RecordTooLargeError, match=f"{MAX_RECORDS + 1} for one batch"):
        await leader.append([b""] * (MAX_RECORDS + 1))
