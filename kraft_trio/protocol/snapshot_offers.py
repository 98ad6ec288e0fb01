"""Checks a snapshot that a leader names instead of sending records (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch


def check_offered_snapshot(snapshot_id: OffsetAndEpoch, *, epoch: int, high_watermark: int | None) -> None:
    """Check that a snapshot may replace the log; `epoch` is that of the leader that named it.

    Raises ProtocolError if the snapshot ends at or below the high watermark (exclusive).  The log already has
    everything in it, and would lose what follows (invariant HighWatermarkNeverFalls).  Also raises ProtocolError for an
    id that no snapshot of that epoch can have, such as that of the bootstrap snapshot, 0-0.
    """
    if snapshot_id.offset < 1 or not 0 <= snapshot_id.epoch <= epoch:
        raise ProtocolError(
            f"snapshot {snapshot_id}, named in epoch {epoch}: expected an offset above 0, and an epoch up to that"
        )
    if high_watermark is not None and snapshot_id.offset <= high_watermark:
        raise ProtocolError(
            f"snapshot {snapshot_id}: the high watermark is {high_watermark}, expected one that ends above that"
        )
