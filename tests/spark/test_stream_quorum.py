"""A stream's view of the leader's log: it stops at the high watermark, and no loss is reported without one."""

from __future__ import annotations

import pytest

from kraft_trio.errors import NetworkError, OffsetOutOfRangeError, ProtocolError, RefusedError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.live.planning import find_loss, first_position, newest_position, offset_at
from kraft_trio.spark.live.position import StreamPosition
from kraft_trio.spark.live.quorum import BehindError, OtherClusterError
from kraft_trio.spark.options import FromTime
from kraft_trio.wire.error_codes import ErrorCode
from tests.spark.scripted_log import CLUSTER, THREE, ScriptedLog, batch, leader_of


async def test_what_is_not_committed_is_cut_off() -> None:
    log = ScriptedLog(THREE, high_watermark=20)
    fetched = await leader_of(log).fetch(3)
    assert fetched.records == THREE[0] + THREE[10]
    assert fetched.next_offset == 20
    assert (await leader_of(log).fetch(20)).records == b""


async def test_nothing_is_committed_that_no_leader_says_is() -> None:
    log = ScriptedLog(THREE, high_watermark=-1)
    leader = leader_of(log)
    assert leader.high_watermark is None
    assert (await leader.fetch(0)).records == b""
    with pytest.raises(NetworkError, match="leader of epoch 4 has committed nothing in it yet"):
        await offset_at(leader, "latest")


async def test_a_leader_is_asked_as_by_a_consumer_that_knows_its_epoch() -> None:
    log = ScriptedLog(THREE, high_watermark=30)
    await leader_of(log).fetch(3, max_bytes=77, max_wait_ms=5)
    [request] = log.asked
    assert (request.replica_id, request.max_bytes, request.max_wait_ms) == (-1, 77, 5)
    assert (request.partitions[0].current_leader_epoch, request.partitions[0].last_fetched_epoch) == (4, 4)


async def test_the_high_watermark_of_a_leader_never_falls() -> None:
    log = ScriptedLog(THREE, high_watermark=20)
    leader = leader_of(log, high_watermark=30)
    await leader.fetch(0)
    assert leader.high_watermark == 30


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ErrorCode.not_leader_or_follower, NetworkError),
        (ErrorCode.fenced_leader_epoch, NetworkError),
        (ErrorCode.invalid_request, RefusedError),
    ],
)
async def test_errors_of_a_leader(error: ErrorCode, raised: type[Exception]) -> None:
    with pytest.raises(raised, match=error.name.upper()):
        await leader_of(ScriptedLog(THREE, 30, error=error)).fetch(0)


async def test_a_damaged_batch_is_refused() -> None:
    damaged = bytearray(THREE[0])
    damaged[-1] ^= 1
    with pytest.raises(ProtocolError, match="CRC"):
        await leader_of(ScriptedLog({0: bytes(damaged)}, 10)).fetch(0)


@pytest.mark.parametrize(
    ("offset", "batches", "named"),
    [
        (3, {0: THREE[0], 20: THREE[20]}, "the batch at 20, of epoch 4, is where offset 10 is expected, in epoch 1"),
        (3, {20: THREE[20]}, "the batch at 20, of epoch 4, is where offset 3 is expected, in epoch 0"),
        (3, {0: THREE[0], 10: batch(5, 1)}, "the batch at 5, of epoch 1, is where offset 10 is expected, in epoch 1"),
        (3, {0: batch(0, 2), 10: THREE[10]}, "the batch at 10, of epoch 1, is where offset 10 is expected, in epoch 2"),
    ],
)
async def test_a_leader_that_leaves_something_out(offset: int, batches: dict[int, bytes], named: str) -> None:
    with pytest.raises(ProtocolError, match=f"Fetch at offset {offset}: {named} or above"):
        await leader_of(ScriptedLog(batches, 30)).fetch(offset)


async def test_where_a_query_begins() -> None:
    leader = leader_of(ScriptedLog({10: THREE[10], 20: THREE[20]}, 30, log_start_offset=10))
    assert await first_position(leader, "earliest") == StreamPosition(CLUSTER, 10, -1, 10)
    assert await first_position(leader, "latest") == StreamPosition(CLUSTER, 30, 4, 30)
    assert await first_position(leader, 15) == StreamPosition(CLUSTER, 15, 1, 15)


TIMED = {0: batch(0, 1, timestamp_ms=100), 10: batch(10, 1, timestamp_ms=200), 20: batch(20, 4, timestamp_ms=300)}


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(0, 0), (100, 0), (105, 5), (110, 10), (200, 10), (209, 19), (210, 20), (304, 24), (305, None), (999, None)],
)
async def test_kafkas_controllers_are_searched_for_a_time(timestamp_ms: int, offset: int | None) -> None:
    """The last five records are not committed."""
    batches = {**TIMED, 20: batch(20, 4, 5, timestamp_ms=300), 25: batch(25, 4, 5, timestamp_ms=305)}
    assert await leader_of(ScriptedLog(batches, 25)).offset_at_time(timestamp_ms) == offset


async def test_a_trimmed_log_is_searched_for_a_time() -> None:
    leader = leader_of(ScriptedLog({20: TIMED[20]}, 30, log_start_offset=20))
    assert [await leader.offset_at_time(timestamp_ms) for timestamp_ms in (0, 300, 307)] == [20, 20, 27]
    at_first_record = ScriptedLog({0: batch(0, 1, 1), **{1: batch(1, 1, timestamp_ms=5)}}, 11, snapshots=SNAPSHOTS)
    assert await leader_of(at_first_record).offset_at_time(0) == 1, "the first control record is not to be had"


async def test_a_query_begins_and_ends_at_times() -> None:
    leader = leader_of(ScriptedLog(TIMED, 30))
    assert await first_position(leader, FromTime(201, is_latest_without=False)) == StreamPosition(CLUSTER, 11, 1, 11)
    assert await offset_at(leader, FromTime(999, is_latest_without=True)) == 30
    with pytest.raises(
        OffsetOutOfRangeError, match=r"startingTimestamp=999: .*Strategy=latest begins at the committed"
    ):
        await offset_at(leader, FromTime(999, is_latest_without=False))
    empty = leader_of(ScriptedLog({}, 0))
    assert await empty.offset_at_time(0) is None


async def test_how_far_a_query_can_go() -> None:
    leader = leader_of(ScriptedLog(THREE, 25))
    start = StreamPosition(CLUSTER, 5, 1, 0)
    assert await newest_position(leader, start, 15) == StreamPosition(CLUSTER, 15, 1, 0)
    assert await newest_position(leader, start, 5) == start


@pytest.mark.parametrize(
    ("offset", "epoch", "loss"),
    [
        (0, -1, None),
        (20, 1, None),
        (21, 4, None),
        (30, 4, None),
        (20, 2, "the record before it is of epoch 1 now, it was of epoch 2"),
        (30, 3, "the record before it is of epoch 4 now, it was of epoch 3"),
    ],
)
async def test_the_epoch_tells_another_history(offset: int, epoch: int, loss: str | None) -> None:
    found = await find_loss(leader_of(ScriptedLog(THREE, 30)), StreamPosition(CLUSTER, offset, epoch, 0))
    assert (found is None) == (loss is None)
    assert loss is None or loss in (found or "")


@pytest.mark.parametrize(("offset", "is_lost"), [(0, True), (9, True), (10, False), (20, False)])
async def test_a_trimmed_log(offset: int, is_lost: bool) -> None:
    log = ScriptedLog({10: THREE[10], 20: THREE[20]}, 30, log_start_offset=10)
    found = await find_loss(leader_of(log), StreamPosition(CLUSTER, offset, 1 if offset else -1, 0))
    assert (found is not None) == is_lost
    assert not is_lost or "the log begins at 10 now" in (found or "")


SNAPSHOTS = (OffsetAndEpoch(10, 1), OffsetAndEpoch(20, 2))


@pytest.mark.parametrize("records", [1, 10])
async def test_kafkas_controllers_offer_a_snapshot_at_the_logs_start(records: int) -> None:
    """They have the record all the same."""
    batches = {10: batch(10, 3, records), 10 + records: batch(10 + records, 4)}
    log = ScriptedLog(batches, 10 + records + 10, log_start_offset=10, snapshots=SNAPSHOTS)
    assert (await leader_of(log).fetch(10)).records == batches[10] + batches[10 + records]
    start = StreamPosition(CLUSTER, 10, 1, 10)
    assert await find_loss(leader_of(log), start) is None
    assert (await newest_position(leader_of(log), start, 10 + records)).epoch == 3
    at_the_end = ScriptedLog({}, 10, log_start_offset=10, snapshots=SNAPSHOTS)
    fetched = await leader_of(at_the_end).fetch(10)
    assert (fetched.records, fetched.next_offset, fetched.is_in_log) == (b"", 10, True)


async def test_kafkas_controllers_offer_a_snapshot_at_offset_0() -> None:
    log = ScriptedLog(THREE, high_watermark=20, snapshots=SNAPSHOTS)
    assert (await leader_of(log).fetch(0)).records == THREE[0] + THREE[10]
    assert await first_position(leader_of(log), "earliest") == StreamPosition(CLUSTER, 0, -1, 0)
    alone = {0: batch(0, 1, 1), 1: batch(1, 1)}
    fetched = await leader_of(ScriptedLog(alone, high_watermark=11, snapshots=SNAPSHOTS)).fetch(0)
    assert (fetched.records, fetched.next_offset) == (alone[1], 11), "the first control record has none beside it"


async def test_a_log_that_is_trimmed_meanwhile_is_found_to_be() -> None:
    log = ScriptedLog({20: THREE[20]}, 30, log_start_offset=20, snapshots=SNAPSHOTS[1:])
    fetched = await leader_of(log).fetch(10)
    assert (fetched.is_in_log, fetched.log_start_offset) == (False, 20)


@pytest.mark.parametrize(
    "log",
    [
        ScriptedLog(THREE, high_watermark=20),
        ScriptedLog({0: THREE[0], 10: THREE[10]}, high_watermark=25),
        ScriptedLog(THREE, high_watermark=30, diverging=OffsetAndEpoch(10, 1)),
    ],
    ids=["knows less to be committed", "has a shorter log", "Kafka's, with another history"],
)
async def test_a_leader_that_is_behind_may_be_none_any_more(log: ScriptedLog) -> None:
    with pytest.raises(BehindError, match="was read up to there"):
        await find_loss(leader_of(log), StreamPosition(CLUSTER, 25, 4, 0))


async def test_another_cluster() -> None:
    with pytest.raises(OtherClusterError, match=r"of cluster another, .* of cluster a cluster"):
        await find_loss(leader_of(ScriptedLog(THREE, 30)), StreamPosition("another", 5, 1, 0))
