"""Checks where a replica may take a snapshot, which pieces a leader serves, and what replaces a log (KIP-630).

A snapshot's id is its end offset (exclusive) and the epoch of the last record before that.
"""

from __future__ import annotations

import enum

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.types import OffsetAndEpoch


def next_snapshot_id(
    end_offset: int,
    *,
    high_watermark: int | None,
    batch_base_offset: int,
    epochs: EpochCache,
    newest: OffsetAndEpoch | None,
) -> OffsetAndEpoch | None:
    """The id of a snapshot of everything before `end_offset` (exclusive), or None if there is nothing new to save.

    `batch_base_offset` is the base offset of the batch that holds `end_offset`, or `end_offset` itself at the log's
    end.  `newest` is the newest snapshot.  Raises ValueError if the offset is not committed, is inside a batch, or
    follows a record that is not in the log.
    """
    if high_watermark is None or end_offset > high_watermark:
        known = "unknown" if high_watermark is None else high_watermark
        raise ValueError(f"snapshot up to offset {end_offset}: the high watermark is {known}, expected that or less")
    if end_offset <= (newest.offset if newest is not None else 0):
        return None
    if batch_base_offset != end_offset:
        raise ValueError(
            f"snapshot up to offset {end_offset}: inside the batch that begins at {batch_base_offset}, expected its end"
        )
    epoch = epochs.epoch_for_offset(end_offset - 1)
    if epoch is None:
        raise ValueError(f"snapshot up to offset {end_offset}: the log does not know the epoch of its last record")
    return OffsetAndEpoch(end_offset, epoch)


class PieceRefusal(enum.Enum):
    """Why a piece of a snapshot is refused; the names are Kafka's."""

    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99


def check_piece(position: int, size_in_bytes: int | None) -> PieceRefusal | None:
    """Check a request for the bytes of a snapshot from `position` on.  None if it can be served.

    `size_in_bytes` is None if no snapshot has that id, and for the bootstrap snapshot, which is never served.  The end
    is out of range too: a client that has every byte need not ask.
    """
    if size_in_bytes is None:
        return PieceRefusal.SNAPSHOT_NOT_FOUND
    return None if 0 <= position < size_in_bytes else PieceRefusal.POSITION_OUT_OF_RANGE


def piece_size(position: int, size_in_bytes: int, asked_bytes: int, max_bytes: int) -> int:
    """How many bytes to serve from a position that `check_piece` accepts: at least one, so that clients advance."""
    return min(size_in_bytes - position, max(1, min(asked_bytes, max_bytes)))


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
