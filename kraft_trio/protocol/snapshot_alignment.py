"""Compares a snapshot with the log on the same disk (KIP-630 "Validation of Snapshot and Log").

A snapshot holds only committed records.  If the log differs, it has uncommitted records, or lacks some because the node
stopped while a snapshot replaced the log.  In both cases the snapshot wins.

If the log has a record of a later epoch below the snapshot's end, one of the two has been exchanged, unless that record
is known to be uncommitted.  The leader of the later epoch may have led before the snapshot's last records, which are
older, were committed: another leader has committed them since (Raft, figure 8).
"""

from __future__ import annotations

import enum

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch


class Alignment(enum.Enum):
    """How the log relates to the snapshot."""

    CONTINUES = "the log has the record that the snapshot ends with, or begins after it"
    REPLACED = "the log ends before the snapshot does, or has uncommitted records in its place"
    CONTRADICTS = "the log has a record of a later epoch where the snapshot ends"


def align(
    snapshot_id: OffsetAndEpoch, log_start_offset: int, log_end_offset: int, epochs: EpochCache, committed: int | None
) -> Alignment:
    """Compare a log with a snapshot that ends (exclusive) at or above the log's start (inclusive).

    `committed` (exclusive) is a high watermark that this log had; None if that is not known.
    """
    assert snapshot_id.offset >= log_start_offset, f"snapshot {snapshot_id} ends below the log start {log_start_offset}"
    found = _compare(snapshot_id, log_start_offset, log_end_offset, epochs)
    if found is Alignment.CONTRADICTS and committed is not None:
        first_later = min(start_offset for epoch, start_offset in epochs if epoch > snapshot_id.epoch)
        return found if first_later < committed else Alignment.REPLACED
    return found


def _compare(snapshot_id: OffsetAndEpoch, log_start_offset: int, log_end_offset: int, epochs: EpochCache) -> Alignment:
    if snapshot_id.offset > log_end_offset:
        return Alignment.CONTRADICTS if epochs.latest_epoch > snapshot_id.epoch else Alignment.REPLACED
    if snapshot_id.offset == log_start_offset:
        first_epoch = epochs.epoch_for_offset(log_start_offset)
        follows = first_epoch is None or first_epoch >= snapshot_id.epoch
        return Alignment.CONTINUES if follows else Alignment.REPLACED
    epoch = epochs.epoch_for_offset(snapshot_id.offset - 1)
    assert epoch is not None, "a record without an epoch"
    if epoch > snapshot_id.epoch:
        return Alignment.CONTRADICTS
    return Alignment.CONTINUES if epoch == snapshot_id.epoch else Alignment.REPLACED
