"""Does a follower's log agree with the leader's up to where it wants to go on?  If not, how far back must it go?

KIP-595 "Fetch" and KIP-630 "Fetch": a fetch names an offset and the epoch of the record before it.  The leader answers
with records, with the end of the largest epoch that it knows and that is not above the follower's (the follower then
truncates and asks again), or with a snapshot where the log no longer reaches back far enough.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch

BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(offset=0, epoch=0)
"""The snapshot that formatting writes.  It covers no record and is never sent, so here it counts as none."""


@attrs.frozen
class Valid:
    """The follower's log is a prefix of the leader's: records follow."""


@attrs.frozen
class Diverging:
    """The follower must truncate: the leader's log of that epoch ends at that offset (exclusive)."""

    end: OffsetAndEpoch


@attrs.frozen
class NeedsSnapshot:
    """The follower must first fetch the snapshot with this id."""

    snapshot_id: OffsetAndEpoch


FetchPositionCheck: TypeAlias = Valid | Diverging | NeedsSnapshot


def check_fetch_position(
    fetch_offset: int,
    last_fetched_epoch: int,
    *,
    log_start_offset: int,
    log_end: OffsetAndEpoch,
    epochs: EpochCache,
    earliest_snapshot_id: OffsetAndEpoch | None = None,
    latest_snapshot_id: OffsetAndEpoch | None = None,
) -> FetchPositionCheck:
    """The leader's judgement of a replica's fetch position; offset and epoch are 0 or more.

    Raises ValueError when the leader's own log begins above 0 without a snapshot that ends there (invariant
    SnapshotsCoverTheLog).
    """
    earliest = earliest_snapshot_id if earliest_snapshot_id != BOOTSTRAP_SNAPSHOT_ID else None
    latest = latest_snapshot_id if latest_snapshot_id != BOOTSTRAP_SNAPSHOT_ID else None
    if log_start_offset > 0 and (earliest is None or latest is None):
        raise ValueError(f"log start offset {log_start_offset}, but no snapshot ends there")
    if fetch_offset == 0:
        return Valid() if latest is None else NeedsSnapshot(latest)
    if (
        earliest is not None
        and latest is not None
        and (
            fetch_offset < log_start_offset
            or (fetch_offset == log_start_offset and last_fetched_epoch != earliest.epoch)
            or last_fetched_epoch < earliest.epoch
        )
    ):
        return NeedsSnapshot(latest)
    end = end_of_epoch(last_fetched_epoch, log_end, epochs, earliest)
    if end.epoch != last_fetched_epoch or end.offset < fetch_offset:
        return Diverging(end)
    return Valid()


def truncation_point(
    epochs: EpochCache,
    log_end: OffsetAndEpoch,
    diverging: OffsetAndEpoch,
    earliest_snapshot_id: OffsetAndEpoch | None = None,
) -> OffsetAndEpoch:
    """Where the follower's log must end (exclusive) once its leader answered `diverging`, and the epoch before that.

    If the follower has records of that epoch, the shorter of both logs' ends of it; else the local end of the largest
    lower epoch.  Raises ProtocolError when that would drop nothing: such an answer can never bring the logs together.
    """
    local_end = end_of_epoch(diverging.epoch, log_end, epochs, earliest_snapshot_id)
    offset = min(local_end.offset, diverging.offset) if local_end.epoch == diverging.epoch else local_end.offset
    if offset >= log_end.offset:
        raise ProtocolError(f"diverging epoch {diverging}: the log that ends at {log_end} has nothing to drop for it")
    return OffsetAndEpoch(offset, _epoch_before(offset, epochs, earliest_snapshot_id))


def end_of_epoch(
    epoch: int, log_end: OffsetAndEpoch, epochs: EpochCache, earliest_snapshot_id: OffsetAndEpoch | None
) -> OffsetAndEpoch:
    """Where the largest epoch of this log that is not above `epoch` ends (exclusive), snapshots taken into account."""
    if epoch >= log_end.epoch:
        return log_end
    end = epochs.end_offset_for_epoch(epoch, log_end.offset)
    if earliest_snapshot_id is not None and end == OffsetAndEpoch(earliest_snapshot_id.offset, epoch):
        return earliest_snapshot_id
    return end


def _epoch_before(offset: int, epochs: EpochCache, earliest_snapshot_id: OffsetAndEpoch | None) -> int:
    if earliest_snapshot_id is not None and offset == earliest_snapshot_id.offset:
        return earliest_snapshot_id.epoch
    return epochs.epoch_for_offset(offset - 1) or 0
