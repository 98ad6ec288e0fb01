"""The stream reader over a scripted leader: what it does where records are lost, step by step as Spark calls it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from trio.testing import MockClock

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.batch import make_live_reader
from kraft_trio.spark.live.position import StreamPosition
from kraft_trio.spark.live.quorum import DataLossError, QuorumAddress, QuorumLeader
from kraft_trio.spark.live.reader import KraftStreamReader, LogPartition
from kraft_trio.wire.network import Network
from tests.spark.live.reading import Offset, latest, latest_once, make_reader_of
from tests.spark.scripted_log import CLUSTER, THREE, ScriptedLog, batch, leader_of

Answer = Callable[[], ScriptedLog]
KAFKAS_TYPES = (StringType(), IntegerType(), IntegerType())
PATIENCE = {"timeoutMs": "300"}


@attrs.define
class Quorum:
    """Who leads, None for nobody; and who is found to lead before, each of them once."""

    log: ScriptedLog | None
    before: list[ScriptedLog | None] = attrs.field(factory=list)
    nodes: tuple[Endpoint, ...] = ()
    """Where the voters are."""
    replica: ScriptedLog | None = None
    """Of the replica that tasks may read; None if it cannot be reached."""


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    """Of three batches, all committed.  No time passes but what is waited for."""
    quorum = Quorum(ScriptedLog(dict(THREE), high_watermark=30))

    @asynccontextmanager
    async def quorum_leader(_address: QuorumAddress, _network: Network) -> AsyncIterator[QuorumLeader]:
        log = quorum.before.pop(0) if quorum.before else quorum.log
        if log is None:
            raise NetworkError("no leader: one:1: Connection refused")
        leader = leader_of(log)
        leader.nodes = quorum.nodes
        yield leader

    @asynccontextmanager
    async def replica(_address: QuorumAddress, _at: Endpoint, _network: Network) -> AsyncIterator[QuorumLeader]:
        if quorum.replica is None:
            raise NetworkError("two:2: Connection refused")
        yield leader_of(quorum.replica)

    run = trio.run

    def run_at_once(*arguments: Any) -> Any:
        return run(*arguments, clock=MockClock(autojump_threshold=0))

    monkeypatch.setattr("kraft_trio.spark.live.quorum.quorum_leader", quorum_leader)
    monkeypatch.setattr("kraft_trio.spark.live.replica.replica", replica)
    monkeypatch.setattr(trio, "run", run_at_once)
    return quorum


def position(offset: int, epoch: int) -> Offset:
    return StreamPosition(CLUSTER, offset, epoch, 0).as_json()


def ranges(partitions: object) -> list[tuple[int, int]]:
    return [(one.wanted.begin, one.wanted.end) for one in partitions]  # type: ignore[attr-defined]


def offsets_of(reader: KraftStreamReader, task: InputPartition) -> list[int]:
    return [row["offset"] for rows in reader.read(task) for row in rows.to_pylist()]


def shorter() -> ScriptedLog:
    return ScriptedLog({0: batch(0, 1)}, high_watermark=10)


def other_epoch() -> ScriptedLog:
    return ScriptedLog({0: batch(0, 1), 10: batch(10, 2), 20: batch(20, 3)}, high_watermark=30)


def trimmed() -> ScriptedLog:
    return ScriptedLog({20: batch(20, 4)}, high_watermark=30, log_start_offset=20)


@pytest.mark.parametrize("change", [shorter, other_epoch])
def test_available_now_does_not_end_before_a_loss_is_told(quorum: Quorum, change: Answer) -> None:
    reader = make_reader_of("one:1", **PATIENCE)
    quorum.log = change()
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match=rf"cluster {CLUSTER}, offset 30: .*failOnDataLoss=false continues"):
        latest(reader, position(30, 4))


@pytest.mark.parametrize(("change", "begins"), [(shorter, 0), (other_epoch, 0), (trimmed, 20)])
def test_a_query_goes_on_at_the_logs_start(
    quorum: Quorum, caplog: pytest.LogCaptureFixture, change: Answer, begins: int
) -> None:
    reader = make_reader_of("one:1", failOnDataLoss="false", **PATIENCE)
    quorum.log = log = change()
    read_to = position(15, 1)
    with caplog.at_level(logging.WARNING, "kraft_trio.spark"):
        end = latest(reader, read_to)
    assert f"continuing at offset {begins}, the log's start (failOnDataLoss=false)" in caplog.text
    assert (end["offset"], end["beganAt"], end["losses"]) == (log.high_watermark, begins, 1)
    assert ranges(reader.partitions(read_to, end)) == [(begins, log.high_watermark)]
    restarted = make_reader_of("one:1", failOnDataLoss="false", **PATIENCE)
    assert ranges(restarted.partitions(read_to, end)) == [(begins, log.high_watermark)]
    assert latest(reader, end) == end


def test_a_planned_batch_that_is_gone_is_no_batch(quorum: Quorum) -> None:
    quorum.log = other_epoch()
    with pytest.raises(DataLossError, match="the record before it is of epoch 3 now, it was of epoch 4"):
        make_reader_of("one:1", **PATIENCE).partitions(position(10, 1), position(30, 4))


def test_a_leader_that_is_none_any_more_is_no_loss(quorum: Quorum) -> None:
    """It says that less is committed than was read before, until the next one is found."""
    quorum.before = [ScriptedLog(dict(THREE), high_watermark=10)]
    assert latest(make_reader_of("one:1", timeoutMs="20000"), position(20, 1), most=1)["offset"] == 21


PATIENT = {"timeoutMs": "1050"}
"""A leader is looked for every 100 ms."""
OUTAGE: list[ScriptedLog | None] = [None] * 10


def behind(times: int) -> list[ScriptedLog | None]:
    """A leader that is none any more, found again and again."""
    return [shorter()] * times


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize(
    "before",
    [[*OUTAGE, *behind(2)], [*behind(6), None, *behind(6)], behind(11)],
    ids=["after an outage", "before and after one", "nearly for timeoutMs"],
)
def test_to_be_behind_for_less_than_the_timeout_is_no_loss(
    quorum: Quorum, before: list[ScriptedLog | None], fail_on_data_loss: str
) -> None:
    options = {"failOnDataLoss": fail_on_data_loss, **PATIENT}
    start, end = position(20, 1), position(30, 4)
    reader, restarted = make_reader_of("one:1", **options), make_reader_of("one:1", **options)
    reader.prepareForTriggerAvailableNow()
    quorum.before = list(before)
    assert latest(reader, start) == end
    assert not quorum.before
    quorum.before = list(before)
    [task] = restarted.partitions(start, end)
    assert not quorum.before
    quorum.before = list(before)
    assert offsets_of(restarted, task) == list(range(20, 30))
    assert not quorum.before


def test_to_be_behind_for_the_timeout_is_a_loss(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    reader = make_reader_of("one:1", failOnDataLoss="false", **PATIENT)
    strict = make_reader_of("one:1", **PATIENT)
    start, end = position(20, 1), position(30, 4)
    [task], [strict_task] = reader.partitions(start, end), strict.partitions(start, end)
    quorum.log = None  # Whoever was behind is not asked again.

    quorum.before = behind(12)
    anew = latest(reader, start)
    assert (anew["offset"], anew["beganAt"], anew["losses"]) == (10, 0, 1)
    quorum.before = behind(12)
    with pytest.raises(DataLossError, match=r"for 1050 ms: .* only offsets up to 10 are committed now"):
        latest(strict, start)

    quorum.before = [*OUTAGE, *behind(12)]
    assert offsets_of(reader, task) == []
    assert "offsets 20 to 30 are gone: for 1050 ms: the leader of epoch 4 does not have offset 20" in caplog.text
    quorum.before = behind(12)
    with pytest.raises(DataLossError, match="offsets 20 to 30 are gone"):
        offsets_of(strict, strict_task)


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_log_that_ends_within_what_a_task_reads(
    quorum: Quorum, caplog: pytest.LogCaptureFixture, fail_on_data_loss: str
) -> None:
    """There is an answer at its end, and nothing in it."""
    reader = make_reader_of("one:1", failOnDataLoss=fail_on_data_loss, **PATIENT)
    [task] = reader.partitions(position(5, 1), position(30, 4))
    known, whole = shorter(), quorum.log
    quorum.before = [known] * 11
    assert offsets_of(reader, task) == list(range(5, 30)), "the next leader has it"
    quorum.log = known
    gone = "offsets 10 to 30 are gone: for 1050 ms: the leader of epoch 4 knows offsets up to 10 to be committed"
    if fail_on_data_loss == "true":
        with pytest.raises(DataLossError, match=gone):
            offsets_of(reader, task)
    else:
        assert offsets_of(reader, task) == list(range(5, 10))
        assert gone in caplog.text
    assert whole is not None
    quorum.log = attrs.evolve(whole, high_watermark=-1)
    with pytest.raises(NetworkError, match="the leader of epoch 4 does not know offset 5 as committed"):
        offsets_of(reader, task)


def test_available_now_does_not_end_where_a_leader_was_behind(quorum: Quorum) -> None:
    reader = make_reader_of("one:1", **PATIENT)
    quorum.before = behind(1)
    reader.prepareForTriggerAvailableNow()
    end = latest(reader, position(20, 1))
    assert end == position(30, 4)
    assert latest(reader, end) == end


def test_few_records_wait_for_more_until_their_delay_is_over(quorum: Quorum) -> None:
    """As with Spark's Kafka source, the first micro-batch waits for nothing."""
    reader = make_reader_of("one:1", minOffsetsPerTrigger="15", maxTriggerDelay="90s", **PATIENCE)
    now_s = 1000.0
    reader._clock_s = lambda: now_s
    assert quorum.log is not None
    quorum.log.high_watermark = 10
    first = latest(reader, position(0, -1))
    assert first["offset"] == 10
    quorum.log.high_watermark = 20
    now_s += 89
    assert latest(reader, first) == first
    assert ranges(reader.partitions(first, first)) == []
    assert quorum.log.asked[-1].max_wait_ms == 500, "it waits at the leader for more"
    now_s += 1
    second = latest(reader, first)
    assert second["offset"] == 20
    quorum.log.high_watermark = 30
    assert latest(reader, second) == second, "the delay begins again"
    assert latest(reader, position(12, 1))["offset"] == 30, "as many as are wanted"


def test_available_now_has_no_minimum(quorum: Quorum) -> None:
    reader = make_reader_of("one:1", minOffsetsPerTrigger="100", **PATIENCE)
    assert latest(reader, position(0, -1))["offset"] == 30
    reader.prepareForTriggerAvailableNow()
    assert latest(reader, position(20, 1))["offset"] == 30


def test_tasks_find_the_leader_through_the_voters_too(quorum: Quorum) -> None:
    quorum.nodes = (Endpoint("two", 2), Endpoint("three", 3))
    batch_reader = make_live_reader({"bootstrapControllers": "one:1"}, StructType([StructField("offset", LongType())]))
    stream_reader = make_reader_of("one:1")
    for task in (*batch_reader.partitions(), *stream_reader.partitions(position(0, -1), position(30, 4))):
        assert isinstance(task, LogPartition)
        assert task.options.address.bootstrap == (Endpoint("one", 1), *quorum.nodes)


def test_tasks_spare_the_leader_if_replicas_are_named(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    reader = make_reader_of("one:1", readReplicas="two:2", **PATIENCE)
    start, end = position(5, 1), position(30, 4)
    [task] = reader.partitions(start, end)
    leaders, quorum.log = quorum.log, None
    quorum.replica = ScriptedLog(dict(THREE), high_watermark=30)
    assert offsets_of(reader, task) == list(range(5, 30))
    quorum.replica = ScriptedLog(dict(THREE), high_watermark=20)
    with pytest.raises(NetworkError, match=r"readReplicas: nothing within 300 ms: .* offsets up to 20 to be committed"):
        offsets_of(reader, task)
    quorum.replica = None
    with pytest.raises(NetworkError, match="readReplicas: nothing within 300 ms: two:2: Connection refused"):
        offsets_of(reader, task)
    quorum.log, quorum.replica = leaders, trimmed()
    assert offsets_of(reader, task) == list(range(5, 30)), "the leader has what the replica has trimmed"
    assert "are gone" not in caplog.text


def test_nobody_leads(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    reader = make_reader_of("one:1", **PATIENCE)
    reader.prepareForTriggerAvailableNow()
    quorum.log = None
    start = position(10, 1)
    assert latest_once(make_reader_of("one:1"), start) == start
    assert "no news of the log, the query continues when there are" in caplog.text
    with pytest.raises(NetworkError, match="quorum not reached within 300 ms: no leader: one:1: Connection refused"):
        latest(reader, start)


def test_rows_have_the_columns_of_kafkas_source_on_request(quorum: Quorum) -> None:
    of_kafka = {"topic": "__cluster_metadata", "partition": 0, "timestampType": 0}
    options = {"includeKafkaColumns": "true", **PATIENCE}
    reader = make_reader_of("one:1", **options)
    end = latest(reader, position(0, -1))
    restarted = make_reader_of("one:1", **options)
    schema = StructType([StructField(name, type) for name, type in zip(of_kafka, KAFKAS_TYPES, strict=True)])
    at_once = make_live_reader({"bootstrapControllers": "one:1", **options}, schema)
    tasks = [
        *((one, task) for one in (reader, restarted) for task in one.partitions(position(0, -1), end)),
        *((at_once, task) for task in at_once.partitions()),
    ]
    for one, task in tasks:
        [row, *_] = [row for rows in one.read(task) for row in rows.to_pylist()]
        assert {name: row[name] for name in of_kafka} == of_kafka


def test_retries_are_in_the_first_row_that_they_delayed(quorum: Quorum) -> None:
    reader = make_reader_of("one:1", includeRetries="true", timeoutMs="20000")
    end = latest(reader, position(10, 1))
    [task] = reader.partitions(position(10, 1), end)
    quorum.before = [None, None, None]
    retries = [row["retries"] for rows in reader.read(task) for row in rows.to_pylist()]
    assert retries == [3, *[0] * 19]
    assert [row["retries"] for rows in reader.read(task) for row in rows.to_pylist()] == [0] * 20


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThan(("OFFSET",), 11), LessThan(("OFFSET",), 14)], [12, 13]),
        ([GreaterThanOrEqual(("OFFSET",), 28), GreaterThan(("epoch",), 100)], [28, 29]),
        ([LessThanOrEqual(("OFFSET",), 1), LessThan(("OFFSET",), 25.5)], [0, 1]),
        ([EqualTo(("OFFSET",), 7), Not(EqualTo(("OFFSET",), 8))], [7]),
        ([EqualTo(("OFFSET",), 99)], []),
    ],
)
def test_a_batch_query_reads_the_offsets_that_filters_leave(
    quorum: Quorum, filters: list[Filter], expected: list[int]
) -> None:
    schema = StructType([StructField("OFFSET", LongType())])
    reader = make_live_reader({"bootstrapControllers": "one:1", **PATIENCE}, schema)
    of_spark = (GreaterThan(("epoch",), 100), LessThan(("OFFSET",), 25.5), Not(EqualTo(("OFFSET",), 8)))
    assert list(reader.pushFilters(filters)) == [filter for filter in filters if filter in of_spark]
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert rows == [{"OFFSET": offset} for offset in expected]
