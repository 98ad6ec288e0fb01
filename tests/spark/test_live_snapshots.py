"""A snapshot of a live quorum, fetched piece by piece from a leader that may tell anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kraft_trio.errors import NetworkError, ProtocolError
from kraft_trio.metadata.history import History, Made, Problem
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.live import image_before as module
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.image_before import apply_batch
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch, iter_headers
from kraft_trio.storage.batches.batch_header import LOG_APPEND_TIME_ATTRIBUTE, patch_crc
from kraft_trio.storage.batches.control_records import SnapshotFooter, SnapshotHeader
from kraft_trio.wire.api import FETCH_SNAPSHOT
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.metadata.test_history import TOPIC, changed, partition
from tests.spark.scripted_log import leader_of
from tests.support.metadata_histories import framed
from tests.support.metadata_logs import batch_of

ID = OffsetAndEpoch(10, 2)
EPOCH = {"leader_epoch": ID.epoch}
HEADER = encode_control_batch([SnapshotHeader(5)], timestamp_ms=0, base_offset=0, **EPOCH)
VALUES = encode_batch([NewRecord(b"one"), NewRecord(b"two")], timestamp_ms=0, base_offset=1, **EPOCH)
FOOTER = encode_control_batch([SnapshotFooter()], timestamp_ms=0, base_offset=3, **EPOCH)
WHOLE = HEADER + VALUES + FOOTER


@attrs.define
class Pieces:
    """Stands for a connection to a leader; `told` may change what it answers to the n-th question."""

    data: bytes = WHOLE
    told: Callable[[int, FetchSnapshotResponse], FetchSnapshotResponse] = lambda _, answer: answer
    asked: int = 0
    high_watermark: int = 20

    async def request(self, api: Any, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        assert api is FETCH_SNAPSHOT
        piece = self.data[request.position : request.position + 100]
        answer = FetchSnapshotResponse(
            snapshot_id=request.snapshot_id, size=len(self.data), position=request.position, unaligned_records=piece
        )
        self.asked += 1
        return self.told(self.asked, answer)


async def values(pieces: Pieces) -> list[bytes]:
    return await leader_of(pieces).snapshot_values(ID)


async def test_the_values_of_a_snapshot() -> None:
    pieces = Pieces()
    assert await values(pieces) == [b"one", b"two"]
    assert pieces.asked > 2


@pytest.mark.parametrize("data", [HEADER, HEADER + VALUES, VALUES + FOOTER, HEADER + FOOTER + VALUES, WHOLE[:-1]])
async def test_a_snapshot_that_is_not_whole_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="snapshot 10@2: "):
        await values(Pieces(data))


async def test_a_snapshot_of_another_epoch_is_refused() -> None:
    other = encode_batch([NewRecord(b"one"), NewRecord(b"two")], timestamp_ms=0, base_offset=1, leader_epoch=3)
    with pytest.raises(ProtocolError, match="epoch 3, expected that of the snapshot's id, 2"):
        await values(Pieces(HEADER + other + FOOTER))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"size": len(WHOLE) + 50}, "is told to be that at 100 of"),
        ({"position": 0}, "is told to be that at 0 of"),
        ({"unaligned_records": b""}, "is empty"),
    ],
)
async def test_a_snapshot_that_changes_between_pieces_is_refused(change: dict[str, Any], expected: str) -> None:
    pieces = Pieces(told=lambda asked, answer: attrs.evolve(answer, **change) if asked == 2 else answer)
    with pytest.raises(ProtocolError, match=expected):
        await values(pieces)


async def test_a_snapshot_that_is_gone_is_looked_for_again() -> None:
    """Another leader, or the next question, tells of a newer one, or that the log begins later."""
    gone = {"partition_error": ErrorCode.snapshot_not_found}
    pieces = Pieces(told=lambda asked, answer: attrs.evolve(answer, **gone) if asked == 2 else answer)
    with pytest.raises(NetworkError, match="SNAPSHOT_NOT_FOUND"):
        await values(pieces)


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**63), 253_402_300_800_000])
def test_a_record_of_a_time_that_no_column_has_is_a_problem(time_ms: int) -> None:
    batch = bytearray(encode_batch([NewRecord(framed(TOPIC))], timestamp_ms=0, base_offset=0, leader_epoch=1))
    batch[22] |= LOG_APPEND_TIME_ATTRIBUTE
    batch[35:43] = time_ms.to_bytes(8, "big", signed=True)
    patch_crc(batch)
    [(position, header)] = iter_headers(batch)
    steps: list[Made | Problem] = [*apply_batch(History(), bytes(batch), position, header, LogRange("c", 0, 9))]
    [problem] = steps
    assert isinstance(problem, Problem)
    assert "expected one of the years 1 to 9999" in problem.reason


def test_records_that_come_again_before_a_range_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(*_: object) -> tuple[None, list[bytes]]:
        return None, []

    def fetched(*_: object, **__: object) -> list[bytes]:
        return [batch_of(first, framed_changes[first:last]) for first, last in ((0, 3), (1, 4))]

    framed_changes = [framed(one) for one in (TOPIC, partition(), changed(leader=2), changed(leader=1))]
    monkeypatch.setattr(module, "ask_leader", asked)
    monkeypatch.setattr(module, "committed_batches", fetched)
    options = read_live_options({"bootstrapControllers": "one:1", "content": "changes"})
    [found] = module.image_before(options, LogRange("c", 4, 9)).image.things("partitions")
    assert found.partition_epoch == partition().partition_epoch + 2
