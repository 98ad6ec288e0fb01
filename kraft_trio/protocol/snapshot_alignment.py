"""Compares a snapshot with the log on the same disk (KIP-630 "Validation of Snapshot and Log").

A snapshot holds only committed records.  If the log differs, it has uncommitted records, or lacks some because the node
stopped while a snapshot replaced the log.  In both cases the snapshot wins.  A log with a record of a later epoch where
the snapshot ends is impossible: the leader of that epoch had all committed records.
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


def align(snapshot_id: OffsetAndEpoch, log_start_offset: int, log_end_offset: int, epochs: EpochCache) -> Alignment:
    """Compare a log with a snapshot that ends (exclusive) at or above the log's start (inclusive)."""
    assert snapshot_id.offset >= log_start_offset, f"snapshot {snapshot_id} ends below the log start {log_start_offset}"
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
