"""Compares a follower's log with the leader's, and finds where the follower must truncate (KIP-595, KIP-630 "Fetch").

A Fetch names an offset and the epoch of the record before it.  If the leader's log agrees, it answers with records.  If
not, it answers with the end of the largest epoch that it knows and that is not above the follower's; the follower
truncates and asks again.  If the leader's log does not reach back far enough, it answers with a snapshot's id.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch

BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(offset=0, epoch=0)
"""The snapshot that formatting writes.  It covers no record and is never sent, so it is ignored here."""


@attrs.frozen
class Valid:
    """The follower's log is a prefix of the leader's, and gets records."""


@attrs.frozen
class Diverging:
    """The follower must truncate, because that epoch ends at that offset (exclusive) in the leader's log."""

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
    """Judge a replica's fetch position on the leader; offset and epoch are 0 or more.

    Raises ValueError if the leader's log starts above 0 without a snapshot that ends there (invariant
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
    """Where the follower's log must end (exclusive) after its leader answered `diverging`, and the epoch before that.

    If the follower has records of that epoch, it is the lower of the epoch's ends in both logs; else the local end of
    the largest lower epoch.  Raises ProtocolError if that drops nothing, because the logs would never agree.
    """
    local_end = end_of_epoch(diverging.epoch, log_end, epochs, earliest_snapshot_id)
    offset = min(local_end.offset, diverging.offset) if local_end.epoch == diverging.epoch else local_end.offset
    if offset >= log_end.offset:
        raise ProtocolError(f"diverging epoch {diverging}: the log that ends at {log_end} has nothing to drop for it")
    return OffsetAndEpoch(offset, _epoch_before(offset, epochs, earliest_snapshot_id))


def end_of_epoch(
    epoch: int, log_end: OffsetAndEpoch, epochs: EpochCache, earliest_snapshot_id: OffsetAndEpoch | None
) -> OffsetAndEpoch:
    """The end (exclusive) of this log's largest epoch that is not above `epoch`; snapshots count as part of the log."""
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
