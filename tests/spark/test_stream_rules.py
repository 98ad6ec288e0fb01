"""The stream reader over a scripted leader: what it does where records are lost, step by step as Spark calls it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest

from kraft_trio.errors import NetworkError
from kraft_trio.spark.stream_position import StreamPosition
from kraft_trio.spark.stream_quorum import DataLossError, QuorumAddress, QuorumLeader
from tests.spark.live.reading import Offset, latest, make_reader_of
from tests.spark.scripted_log import CLUSTER, THREE, ScriptedLog, batch, leader_of

Answer = Callable[[], ScriptedLog]
PATIENCE = {"timeoutMs": "300"}


@attrs.define
class Quorum:
    """Who leads now, None for nobody; and who does once that one has been asked."""

    log: ScriptedLog | None
    successor: ScriptedLog | None = None


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    """Of three batches, all committed."""
    quorum = Quorum(ScriptedLog(dict(THREE), high_watermark=30))

    @asynccontextmanager
    async def quorum_leader(_address: QuorumAddress) -> AsyncIterator[QuorumLeader]:
        if quorum.log is None:
            raise NetworkError("no leader: one:1: Connection refused")
        try:
            yield leader_of(quorum.log)
        finally:
            quorum.log, quorum.successor = quorum.successor or quorum.log, None

    monkeypatch.setattr("kraft_trio.spark.stream_quorum.quorum_leader", quorum_leader)
    return quorum


def position(offset: int, epoch: int) -> Offset:
    return StreamPosition(CLUSTER, offset, epoch, 0).as_json()


def ranges(partitions: object) -> list[tuple[int, int]]:
    return [(one.wanted.begin, one.wanted.end) for one in partitions]  # type: ignore[attr-defined]


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
    with pytest.raises(DataLossError, match=rf"cluster {CLUSTER}, offset 30: .*failOnDataLoss=false goes on"):
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
    assert f"going on at offset {begins}, the log's start (failOnDataLoss=false)" in caplog.text
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
    quorum.successor, quorum.log = quorum.log, ScriptedLog(dict(THREE), high_watermark=10)
    assert latest(make_reader_of("one:1", timeoutMs="20000"), position(20, 1), most=1)["offset"] == 21


def test_nobody_leads(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    reader = make_reader_of("one:1", **PATIENCE)
    reader.prepareForTriggerAvailableNow()
    quorum.log = None
    start = position(10, 1)
    assert latest(make_reader_of("one:1"), start) == start
    assert "no news of the log, the query goes on when there are" in caplog.text
    with pytest.raises(NetworkError, match="quorum not reached within 300 ms: no leader: one:1: Connection refused"):
        latest(reader, start)
