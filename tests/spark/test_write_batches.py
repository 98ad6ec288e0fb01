"""What a task of a writer does with the batches of its rows, over a scripted quorum and without Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest
import trio
from pyspark.sql.types import StringType, StructField, StructType
from trio.testing import MockClock

from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.spark.writing.appending import PartitionAppender
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended
from kraft_trio.spark.writing.options import read_write_options
from kraft_trio.spark.writing.rows import RecordMaker
from kraft_trio.spark.writing.writer import append_all
from kraft_trio.storage.batches.batch import NewRecord, decode_records, encode_batch, peek_header
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.client.scripted_quorum import ScriptedQuorum, hang

VALUES = StructType([StructField("value", StringType())])
SMALLEST_BATCH_BYTES = 1024
OF = PartitionWrite(Write("a write", 0), 0)


@asynccontextmanager
async def running(quorum: ScriptedQuorum, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The quorum is what there is on the network."""
    async with quorum.running() as network:
        monkeypatch.setattr("kraft_trio.security.client_network.TcpNetwork", lambda: network)
        yield


async def append(quorum: ScriptedQuorum, texts: list[str], timeout_ms: int, **more: str) -> Appended:
    nodes = ",".join(f"{node.host}:{node.port}" for node in quorum.bootstrap)
    options = {"bootstrapControllers": nodes, "timeoutMs": str(timeout_ms), "maxBatchBytes": str(SMALLEST_BATCH_BYTES)}
    options |= more
    rows = iter([pa.record_batch({"value": pa.array(texts)})])
    return await append_all(read_write_options(options), RecordMaker.of(VALUES, is_msgpack=False), OF, rows)


def texts_in(quorum: ScriptedQuorum) -> list[str]:
    records = [record for batch in quorum.batches for record in decode_records(batch, 0, peek_header(batch))]
    return [(record.value or b"").decode() for record in records]


async def commit_slowly() -> None:
    await trio.sleep(0.9)


TEXTS = [f"{number}" * 800 for number in range(5)]
"""A batch each."""


async def test_each_batch_has_the_whole_time_to_commit(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = ScriptedQuorum()
    quorum.late_faults.extend([commit_slowly] * len(TEXTS))
    async with running(quorum, monkeypatch):
        assert await append(quorum, TEXTS, timeout_ms=1000) == Appended(OF, 5, 0, 0, 4)
    assert texts_in(quorum) == TEXTS
    assert len(quorum.batches) == len(TEXTS)


async def test_a_batch_that_does_not_commit_in_time_ends_the_task(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = ScriptedQuorum()
    quorum.late_faults.extend([commit_slowly, hang])
    async with running(quorum, monkeypatch):
        with pytest.raises(OutcomeUnknownError, match="sent, but not confirmed in time"):
            await append(quorum, TEXTS, timeout_ms=1000)
    assert texts_in(quorum) == TEXTS[:2]


@pytest.mark.parametrize("sorts", [True, False])
async def test_rows_can_be_sorted(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, sorts: bool) -> None:
    quorum = ScriptedQuorum()
    async with running(quorum, monkeypatch):
        await append(quorum, TEXTS[::-1], timeout_ms=1000, sortRows=str(sorts))
    assert texts_in(quorum) == (TEXTS if sorts else TEXTS[::-1])


@pytest.mark.parametrize("has_others", [True, False])
async def test_a_leader_may_lose_what_it_said_it_had(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, has_others: bool
) -> None:
    """It had the batch of an earlier attempt, not committed.  The next leader has something else there, or nothing."""
    quorum = ScriptedQuorum()
    if has_others:
        quorum.append_control()
        for _ in range(8):
            quorum._append(bytearray(encode_batch([NewRecord(b"another's")], timestamp_ms=0)))
    answer = PartitionAppender._answer
    told = [
        ProducePartitionResponse(error=ErrorCode.out_of_order_sequence_number, base_offset=7, error_message="known")
    ]

    async def answered(self: PartitionAppender, encoded: bytes) -> ProducePartitionResponse:
        return told.pop() if told else await answer(self, encoded)

    monkeypatch.setattr(PartitionAppender, "_answer", answered)
    async with running(quorum, monkeypatch):
        appended = await append(quorum, ["ours"], timeout_ms=1000)
    assert appended.records == 1
    assert texts_in(quorum)[-1:] == ["ours"]
