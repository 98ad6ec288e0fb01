"""Repeated, concurrent and changed attempts at a write, on a simulated quorum and without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
import trio

from kraft_trio.errors import NetworkError, RecordTooLargeError
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.spark.live.quorum import QuorumAddress
from kraft_trio.spark.writing.appending import PartitionAppender, Placed
from kraft_trio.spark.writing.batches import RowBatch, batches_of
from kraft_trio.spark.writing.completeness import RepeatedWriteError, check_rows, possible_partitions
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.raw_client import CLIENT, TOPIC, RawClient

pytestmark = pytest.mark.rotating(2)

WRITE = Write("the query", 7, is_micro_batch=True)
OF = PartitionWrite(WRITE, 0)
LARGEST = 1024
ROWS = [f"{number}".encode() * 80 for number in range(10, 60)]
"""Five to a batch of LARGEST bytes: ten batches."""


def divided(rows: Sequence[bytes], at_once: int = 7, largest: int = LARGEST) -> list[RowBatch]:
    """The batches of rows that Spark brings a few at a time."""
    records = [NewRecord(row) for row in rows]
    parts = (records[start : start + at_once] for start in range(0, len(records), at_once))
    return list(batches_of(parts, largest))


def appender(cluster: Cluster, of: PartitionWrite = OF, timeout_ms: int = 60_000) -> PartitionAppender:
    address = QuorumAddress(tuple(map(cluster.endpoint_of, cluster.voter_ids)), 1000, timeout_ms)
    return PartitionAppender(
        address, TOPIC, of, network=cluster.network.seen_from(CLIENT), wall_clock_ms=lambda: 1_000_000
    )


async def attempt(
    cluster: Cluster, batches: Sequence[RowBatch], of: PartitionWrite = OF, timeout_ms: int = 60_000
) -> list[Placed]:
    async with appender(cluster, of, timeout_ms) as appending:
        return [await appending.append(batch) for batch in batches]


async def in_log(cluster: Cluster) -> list[bytes]:
    """What every node has."""
    await cluster.wait_until_alike()
    logs = [values_in(node) for node in cluster.nodes.values()]
    assert logs == logs[:1] * len(logs)
    return logs[0]


@pytest.mark.parametrize("done", [0, 1, 5, 9, 10])
@on_cluster()
async def test_a_repeat_completes_what_an_attempt_began(cluster: Cluster, done: int) -> None:
    """Also if the log remembers only the last five of the batches, and Spark divides the rows otherwise."""
    batches = divided(ROWS)
    assert len(batches) == 10
    first = await attempt(cluster, batches[:done])
    again = await attempt(cluster, divided(ROWS, at_once=3))
    assert await in_log(cluster) == ROWS
    assert [placed.is_repeated for placed in again] == [True] * done + [False] * (10 - done)
    remembered = slice(max(done - 5, 0), done)
    assert again[remembered] == [Placed(placed.base_offset, is_repeated=True) for placed in first[remembered]]
    assert all(placed.base_offset is None for placed in again[: remembered.start])


@on_cluster()
async def test_two_attempts_at_a_time_write_once(cluster: Cluster) -> None:
    """As Spark's speculative tasks do, which both write to the end."""
    found: list[list[Placed]] = []

    async def write() -> None:
        found.append(await attempt(cluster, divided(ROWS)))

    await cluster.wait_for_leader()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(write)
    assert await in_log(cluster) == ROWS
    pairs = [{a.base_offset, b.base_offset} - {None} for a, b in zip(*found, strict=True)]
    assert all(len(offsets) == 1 for offsets in pairs), "they are told the same place, if the log still knows it"
    both = [a.is_repeated + b.is_repeated for a, b in zip(*found, strict=True)]
    assert both == [1] * 10, "each batch was appended by one of them"


@on_cluster()
async def test_a_leader_that_dies_meanwhile(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        old = await cluster.wait_for_leader()

        async def kill() -> None:
            await cluster.wait_until(lambda: ROWS[22] in values_in(old))
            cluster.machines[old.key.id].kill()
            await cluster.machines[old.key.id].start()

        nursery.start_soon(kill)
        await attempt(cluster, divided(ROWS))
    await attempt(cluster, divided(ROWS))
    assert await in_log(cluster) == ROWS


@pytest.mark.parametrize("done", [1, 10])
@pytest.mark.parametrize("changed", ["a value", "the order", "fewer rows", "more rows", "smaller batches"])
@on_cluster()
async def test_a_repeat_with_other_rows_is_refused(cluster: Cluster, changed: str, done: int) -> None:
    """And adds nothing to the log."""
    await attempt(cluster, divided(ROWS)[:done])
    # The attempt to come looks at the first batch if there is one, at the last five if there are ten.
    first = 0 if done == 1 else 25
    rows, largest = list(ROWS), LARGEST
    match changed:
        case "a value":
            rows[first + 2] = b"x" * len(rows[first + 2])
        case "the order":
            rows[first], rows[first + 1] = rows[first + 1], rows[first]
        case "fewer rows":
            del rows[first + 3 :]
        case "more rows":
            rows[first + 2 : first + 2] = [b"more"]
        case "smaller batches":
            largest = 700
    before = await in_log(cluster)
    with pytest.raises(RepeatedWriteError, match=r"micro-batch 7 of query the query, partition 0.*exactlyOnce=false"):
        await attempt(cluster, divided(rows, largest=largest))
    assert await in_log(cluster) == before


@on_cluster()
async def test_the_first_row_that_differs_is_named(cluster: Cluster) -> None:
    await attempt(cluster, divided(ROWS)[:2])
    rows = [*ROWS[:7], b"x" * 200, *ROWS[8:]]
    with pytest.raises(
        RepeatedWriteError, match=r"partition 0, row 7: another attempt has written another row, at off"
    ):
        await attempt(cluster, divided(rows))


@on_cluster()
async def test_the_order_within_a_single_batch_is_free(cluster: Cluster) -> None:
    """The log has all rows of such a partition or none."""
    await attempt(cluster, divided(ROWS[:4]))
    [placed] = await attempt(cluster, divided(ROWS[3::-1]))
    assert placed.is_repeated
    with pytest.raises(RepeatedWriteError):
        await attempt(cluster, divided([*ROWS[:3], ROWS[2]]))
    assert await in_log(cluster) == ROWS[:4]


@on_cluster()
async def test_partitions_versions_and_applications_are_writes_of_their_own(cluster: Cluster) -> None:
    others = [
        PartitionWrite(WRITE, 1),
        PartitionWrite(Write("another", 7), 0),
        PartitionWrite(Write("the query", 8), 0),
    ]
    far = PartitionWrite(Write("the query", 7 + 2**15), 0)
    for of in (OF, *others, far):
        [placed] = await attempt(cluster, divided(ROWS[:2]), of)
        assert not placed.is_repeated
    assert await in_log(cluster) == ROWS[:2] * 5


@on_cluster()
async def test_a_late_attempt_at_an_earlier_micro_batch_is_refused(cluster: Cluster) -> None:
    """It comes from a process that was thought dead, or from a checkpoint that is older than the log."""
    await attempt(cluster, divided(ROWS[:2]), PartitionWrite(Write("q", 8), 0))
    with pytest.raises(RepeatedWriteError, match="rows of a later one: the checkpoint is older than the log"):
        await attempt(cluster, divided(ROWS[2:4]), PartitionWrite(Write("q", 7), 0))
    assert await in_log(cluster) == ROWS[:2]


@on_cluster(settings={"message.max.bytes": "600"})
async def test_a_batch_that_the_quorum_refuses(cluster: Cluster) -> None:
    with pytest.raises(RecordTooLargeError, match=r"from row 0 on.*maxBatchBytes, and the quorum's message\.max\.byt"):
        await attempt(cluster, divided(ROWS))
    assert await in_log(cluster) == []


@on_cluster(settings={"kraft.producer.ids.max": "1"})
async def test_rows_that_the_log_has_forgotten_meanwhile(cluster: Cluster) -> None:
    async with appender(cluster) as appending:
        first, second, *_ = divided(ROWS)
        await appending.append(first)
        await attempt(cluster, divided(ROWS[:1]), PartitionWrite(WRITE, 1))
        with pytest.raises(RepeatedWriteError, match=r"from row 5 on: .*more producers than kraft\.producer\.ids\.max"):
            await appending.append(second)


@on_cluster(started=(1,))
async def test_a_quorum_without_a_leader(cluster: Cluster) -> None:
    with pytest.raises(NetworkError, match="micro-batch 7 of query the query, partition 0: not sent in time: "):
        await attempt(cluster, divided(ROWS), timeout_ms=3000)


def test_a_row_that_fits_no_batch_is_named() -> None:
    rows = [*ROWS[:8], b"x" * 2000]
    found: list[RowBatch] = []
    with pytest.raises(RecordTooLargeError, match=r"from row 5 on: values\[3\]: 2000 bytes do not fit a batch of 1024"):
        found.extend(batches_of([[NewRecord(row)] for row in rows], LARGEST))


def test_batches_do_not_depend_on_how_rows_arrive() -> None:
    whole = divided(ROWS, at_once=1000)
    assert all(divided(ROWS, at_once=at_once) == whole for at_once in (1, 2, 3, 5, 11, 49))
    assert [record.value for batch in whole for record in batch.records] == ROWS
    assert [batch.first_row for batch in whole] == list(range(0, 50, 5))
    assert not any(batch.is_whole_partition for batch in whole)
    assert [batch.is_whole_partition for batch in divided(ROWS[:5])] == [True]
    assert divided([]) == []


async def check(cluster: Cluster, tasks: Sequence[Appended]) -> None:
    """As the driver does when all tasks are done."""
    leader = await cluster.wait_for_leader()
    partitions = possible_partitions(tasks)
    async with RawClient.connected(cluster, cluster.others(leader)[0].key.id) as client:
        request = DescribeQuorumRequest(TOPIC, producer_ids=tuple(of.producer_id for of in partitions))
        known = (await client.ask(DESCRIBE_QUORUM, request)).producers
    check_rows(tasks, partitions, {producer.producer_id: producer for producer in known})


@pytest.mark.parametrize(
    ("earlier", "rows", "named"),
    [
        ([], [20, 0], None),
        ([10, 0], [20, 0], None),
        ([20, 0], [10, 0], "partition 0: the log has 20 rows of it, this attempt 10"),
        ([5, 5], [10, 0], "partition 1: the log has 5 rows of it, this attempt 0"),
        ([0, 0, 5], [5, 0], "partition 2: the log has 5 rows of it, this attempt 0"),
    ],
)
@on_cluster()
async def test_the_driver_finds_rows_of_another_division(
    cluster: Cluster, earlier: list[int], rows: list[int], named: str | None
) -> None:
    """Five rows fill a batch, so that none of the tasks can see it.  Rows of other micro-batches are no concern."""
    for partition in range(4):
        await attempt(cluster, divided(ROWS), PartitionWrite(Write("the query", 6), partition))
    for partition, number in enumerate(earlier):
        await attempt(cluster, divided(ROWS[:number]), PartitionWrite(WRITE, partition))
    tasks = []
    for partition, number in enumerate(rows):
        of = PartitionWrite(WRITE, partition)
        await attempt(cluster, divided(ROWS[:number]), of)
        tasks.append(Appended(of, number))
    if named is None:
        await check(cluster, tasks)
    else:
        with pytest.raises(RepeatedWriteError, match=named):
            await check(cluster, tasks)


MICRO_BATCHES, PARTITIONS = 15, 2


def rows_of(batch_id: int, partition: int) -> list[bytes]:
    """Three batches of the log, so that attempts die between them."""
    return [f"{batch_id}/{partition}/{number}/".ljust(160, ".").encode() for number in range(13)]


@pytest.mark.rotating(4)
@pytest.mark.parametrize("seed", range(2))
def test_fifty_kills(seed: int) -> None:
    """Of attempts, alone and next to others, and of leaders: every row is there once, and each partition in order."""
    choose = random.Random(seed)
    killed = Counter[str]()

    async def task(cluster: Cluster, of: PartitionWrite) -> None:
        """Attempts until one is whole; the others are killed, or have another one next to them."""
        batches = divided(rows_of(of.write.version, of.partition), at_once=choose.randint(1, 20))
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                if choose.random() < 0.3:
                    nursery.start_soon(attempt, cluster, batches, of)
                with trio.move_on_after(choose.uniform(0, 0.04)) as killing:
                    await attempt(cluster, batches, of)
                killed["attempt"] += killing.cancelled_caught
        await attempt(cluster, batches, of)

    async def kill_leader(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await trio.sleep(choose.uniform(0, 0.1))
        cluster.machines[leader.key.id].kill()
        killed["leader"] += 1
        await cluster.machines[leader.key.id].start()

    async def test(cluster: Cluster) -> None:
        for batch_id in range(MICRO_BATCHES):
            # As in Spark, a micro-batch begins when the one before it is complete.
            async with trio.open_nursery() as nursery:
                if choose.random() < 0.4:
                    nursery.start_soon(kill_leader, cluster)
                for partition in range(PARTITIONS):
                    nursery.start_soon(task, cluster, PartitionWrite(Write("q", batch_id, True), partition))
        found = await in_log(cluster)
        for partition in range(PARTITIONS):
            rows = [row for row in found if row.split(b"/")[1] == b"%d" % partition]
            assert rows == [row for batch_id in range(MICRO_BATCHES) for row in rows_of(batch_id, partition)]

    run_on_cluster(test, Setup(seed=seed))
    assert killed.total() >= 50, killed
    assert killed["leader"] >= 3, killed
