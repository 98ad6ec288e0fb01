"""What a follower makes of a snapshot that its leader names in place of records (KIP-630 "Fetch Snapshot")."""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch


def check_offered_snapshot(snapshot_id: OffsetAndEpoch, *, epoch: int, high_watermark: int | None) -> None:
    """Whether the log may give way to a snapshot of that id; `epoch` is the leader's, in which it was named.

    Raises ProtocolError where it ends at or below the high watermark (exclusive): everything that such a snapshot
    covers is here, and committed, so that nothing is gained and what follows it would be lost (invariant
    HighWatermarkNeverFalls).  Raises
    it, too, for an id that no snapshot of that epoch has; the bootstrap snapshot, 0-0, is never fetched.
    """
    if snapshot_id.offset < 1 or not 0 <= snapshot_id.epoch <= epoch:
        raise ProtocolError(
            f"snapshot {snapshot_id}, named in epoch {epoch}: expected an offset above 0, and an epoch up to that"
        )
    if high_watermark is not None and snapshot_id.offset <= high_watermark:
        raise ProtocolError(
            f"snapshot {snapshot_id}: the high watermark is {high_watermark}, expected one that ends above that"
        )
