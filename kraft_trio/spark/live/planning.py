"""The driver's questions to the leader: where a query begins, how far it can read, and whether anything is lost."""

from __future__ import annotations

from kraft_trio.errors import NetworkError, OffsetOutOfRangeError
from kraft_trio.spark.live.position import UNKNOWN_EPOCH, StreamPosition
from kraft_trio.spark.live.quorum import BehindError, QuorumLeader, check_cluster
from kraft_trio.spark.options import EARLIEST, LATEST, FromTime, Place


def committed_end(leader: QuorumLeader) -> int:
    """The committed end, exclusive.  Raises NetworkError while the leader does not know it."""
    if leader.high_watermark is None:
        raise NetworkError(f"{leader.name} has committed nothing in it yet")
    return leader.high_watermark


async def offset_at(leader: QuorumLeader, place: Place | FromTime) -> int:
    """The offset of a place.  Raises NetworkError; OffsetOutOfRangeError if it lies beyond the committed end."""
    end = committed_end(leader)
    if isinstance(place, FromTime):
        found = await leader.offset_at_time(place.timestamp_ms)
        if found is None and not place.is_latest_without:
            raise OffsetOutOfRangeError(
                f"startingTimestamp={place.timestamp_ms}: cluster {leader.cluster_id} has no record of that time or a "
                "later one; startingOffsetsByTimestampStrategy=latest begins at the committed end"
            )
        return end if found is None else min(found, end)
    if place == LATEST:
        return end
    if place == EARLIEST:
        return await leader.log_start_offset()
    if int(place) > end:
        raise OffsetOutOfRangeError(f"offset {place}: cluster {leader.cluster_id} has committed offsets up to {end}")
    return int(place)


async def first_position(leader: QuorumLeader, starting: Place | FromTime) -> StreamPosition:
    """Where a new query begins.  Raises like `offset_at`."""
    offset = await offset_at(leader, starting)
    epoch = await leader.epoch_before(offset) if offset else None
    return StreamPosition.beginning(leader.cluster_id, offset, UNKNOWN_EPOCH if epoch is None else epoch)


async def find_loss(leader: QuorumLeader, position: StreamPosition) -> str | None:
    """Describe what is missing from the log that was read so far; None if reading can continue.

    Raises OtherClusterError if the leader has another cluster's log; BehindError; NetworkError.
    """
    check_cluster(position.cluster_id, leader)
    end = committed_end(leader)
    where = f"cluster {leader.cluster_id}, offset {position.offset}"
    if position.offset > end:
        raise BehindError(f"{where}: was read up to there, and only offsets up to {end} are committed now")
    before = await leader.fetch(max(position.offset - 1, 0), max_bytes=1)
    if not before.is_in_log:
        begins = before.log_start_offset
        if begins < position.offset:
            raise BehindError(f"{where}: was read up to there, and the log does not have it now")
        return None if begins == position.offset else f"{where}: the log begins at {begins} now"
    if position.offset == 0:
        return None
    epoch = before.first_epoch
    if position.epoch != UNKNOWN_EPOCH and epoch is not None and epoch != position.epoch:
        return f"{where}: the record before it is of epoch {epoch} now, it was of epoch {position.epoch}"
    return None


async def newest_position(leader: QuorumLeader, start: StreamPosition, up_to: int) -> StreamPosition:
    """Return the last position that a query can read to from `start`, at most `up_to` (exclusive).

    The log must still have `start`.  Raises NetworkError.
    """
    offset = min(up_to, committed_end(leader))
    if offset <= start.offset:
        return start
    epoch = await leader.epoch_before(offset)
    if epoch is None:
        raise NetworkError(f"{leader.name} does not have offset {offset - 1}, which is committed")
    return start.advanced_to(offset, epoch)
