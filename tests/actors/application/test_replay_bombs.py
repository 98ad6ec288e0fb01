"""Committed bombs: what a replica makes of records that no leader of this version would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

import pytest
import trio

from kraft_trio.actors.application.record_checker import RecordChecker
from kraft_trio.actors.application.record_decoder import MOST_RECORDS, RecordDecoder
from kraft_trio.actors.application.state_machine_driver import OnCommit
from kraft_trio.errors import CorruptLogError
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.storage.batches.batch import Record, peek_header
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.storage.batches.record_limits import MAX_READ_HEADERS, MAX_RECORDS
from kraft_trio.wire.error_codes import ErrorCode
from tests.support import bombs
from tests.support.on_cluster import run_on_cluster
from tests.support.raw_client import RawClient, batch_of

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _older_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that looks at no record."""

    async def accept(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(RecordChecker, "check", accept)


class Applications:
    """What each node's application was given."""

    def __init__(self) -> None:
        self.calls: dict[int, list[list[int]]] = {}

    def of(self, node_id: int) -> OnCommit:
        calls = self.calls.setdefault(node_id, [])

        async def on_commit(records: Sequence[Record]) -> None:
            calls.append([record.offset for record in records])
            await trio.lowlevel.checkpoint()

        return on_commit


async def produce(cluster: Cluster, batch: bytes) -> int:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.produce(batch)
    assert answer.error is ErrorCode.none
    return answer.base_offset


def test_large_batch_is_given_in_several_calls_each_record_once() -> None:
    applications = Applications()
    count = 3 * MOST_RECORDS

    async def run(cluster: Cluster) -> None:
        base = await produce(cluster, bombs.tiny_records(Compression.ZSTD, count))
        await produce(cluster, batch_of(b"after"))
        for node_id in cluster.voter_ids:
            node = cluster.machines[node_id].node
            await node.wait_until_applied(base + count)
            calls = applications.calls[node_id]
            assert [offset for call in calls for offset in call] == list(range(base, base + count + 1))
            assert len(calls) >= 4
            assert max(map(len, calls)) <= MOST_RECORDS

    run_on_cluster(run, Setup(on_commit=applications.of))


@pytest.mark.parametrize(
    "batch",
    [
        bombs.many_headers(Compression.ZSTD, MAX_READ_HEADERS + 1),
        bombs.claimed_count(Compression.GZIP),
        bombs.zstd_window(),
        bombs.nested(Compression.LZ4, 1000),
    ],
    ids=["headers", "claimed count", "window", "no records"],
)
def test_unreadable_records_stop_the_application_not_the_node(batch: bytes) -> None:
    applications = Applications()

    async def run(cluster: Cluster) -> None:
        before = await produce(cluster, batch_of(b"before"))
        await cluster.wait_until(lambda: list(applications.calls.values()) == [[[before]]] * 3)
        unreadable = await produce(cluster, batch)
        leader = await cluster.wait_for_leader()
        epoch = leader.view.epoch
        with pytest.raises(CorruptLogError, match="committed records that cannot be read"):
            await leader.wait_until_applied(unreadable)
        after = await produce(cluster, batch_of(b"after"))
        assert (leader.log.high_watermark or 0) > after
        assert (await cluster.wait_for_leader()).view.epoch == epoch
        assert all(calls == [[before]] for calls in applications.calls.values())
        async with aclosing(leader.committed(before)) as committed:
            assert (await anext(committed)).offset == before
            with pytest.raises(CorruptLogError, match="committed records that cannot be read"):
                await anext(committed)

    run_on_cluster(run, Setup(on_commit=applications.of))


def test_part_of_an_unreadable_batch_is_given_to_nobody() -> None:
    applications = Applications()
    records = [bombs.record(index) for index in range(3 * MOST_RECORDS)]
    content = bombs.compressed(Compression.ZSTD, [b"".join(records)])
    batch = bombs.batch_around(Compression.ZSTD, content, 3 * MOST_RECORDS + 1)

    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        with pytest.raises(CorruptLogError, match="committed records that cannot be read"):
            await leader.wait_until_applied(await produce(cluster, batch))
        assert not any(applications.calls.values())

    run_on_cluster(run, Setup(on_commit=applications.of))


class CountingThread:
    def __init__(self) -> None:
        self.jobs = 0

    async def run(self, job: Callable[[], T]) -> T:
        self.jobs += 1
        await trio.lowlevel.checkpoint()
        return job()


async def test_ordinary_batches_are_decoded_in_the_loop() -> None:
    thread = CountingThread()
    decoder = RecordDecoder(thread, bombs.MEBIBYTE)
    small = batch_of(b"a", b"b")
    assert decoder.at_once(small, peek_header(small)) is not None
    for batch in (bombs.tiny_records(Compression.NONE, 900), bombs.tiny_records(Compression.ZSTD, 300)):
        assert [len(some) async for some in decoder.lists(batch, peek_header(batch))] == [
            peek_header(batch).record_count
        ]
    # That there are no more is all that the thread says.
    assert thread.jobs <= 2


async def test_most_work_of_a_bomb_is_done_off_the_loop() -> None:
    thread = CountingThread()
    decoder = RecordDecoder(thread, bombs.MEBIBYTE)
    batch = bombs.tiny_records(Compression.LZ4, MAX_RECORDS)
    lists = [len(some) async for some in decoder.lists(batch, peek_header(batch))]
    assert (sum(lists), max(lists) <= MOST_RECORDS) == (MAX_RECORDS, True)
    assert thread.jobs > MAX_RECORDS // 4096
