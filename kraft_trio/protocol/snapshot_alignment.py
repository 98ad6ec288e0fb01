"""How a snapshot and a log on one disk stand to each other (KIP-630 "Validation of Snapshot and Log").

A snapshot holds only what is committed, so wherever the two differ it is the log that must give way: it has records
that were never committed, or lacks some, because the node stopped while a snapshot took the place of its log.  One
thing cannot be: a record of a later epoch where the snapshot ends.  Whoever led that epoch had all that was committed.
"""

from __future__ import annotations

import enum

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch


class Alignment(enum.Enum):
    """What the log is to the snapshot."""

    CONTINUES = "the log has the record that the snapshot ends with, or begins after it"
    REPLACED = "the log ends before the snapshot does, or has uncommitted records in its place"
    CONTRADICTS = "the log has a record of a later epoch where the snapshot ends"


def align(snapshot_id: OffsetAndEpoch, log_start_offset: int, log_end_offset: int, epochs: EpochCache) -> Alignment:
    """`snapshot_id` must not end (exclusive) below the log's start (inclusive)."""
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
