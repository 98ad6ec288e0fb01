"""Where a replica may take a snapshot, and what a leader answers whoever asks for a piece of one (KIP-630).

A snapshot's id is its end offset (exclusive) and the epoch of the last record before that.
"""

from __future__ import annotations

import enum

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
    """The id of a snapshot of everything before `end_offset` (exclusive); None where there is one as new, or nothing.

    `batch_base_offset` is that of the batch with the record at `end_offset`, the end offset itself at the log's end;
    `newest` the newest snapshot there is.  Raises ValueError, naming the value and what was expected, for an offset
    that may be undone, that is inside a batch, or whose last record is not in the log: the application is never given
    those.
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
    """Why a piece of a snapshot is not given; the names are Kafka's."""

    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99


def check_piece(position: int, size_in_bytes: int | None) -> PieceRefusal | None:
    """What is wrong with asking for the bytes of a snapshot from `position` on; None: nothing.

    `size_in_bytes` is the snapshot's, None where there is none of that id: the bootstrap snapshot 0-0 is never given.
    A whole snapshot has a byte or more, so that whoever has all of it has nothing to ask for.
    """
    if size_in_bytes is None:
        return PieceRefusal.SNAPSHOT_NOT_FOUND
    return None if 0 <= position < size_in_bytes else PieceRefusal.POSITION_OUT_OF_RANGE


def piece_size(position: int, size_in_bytes: int, asked_bytes: int, max_bytes: int) -> int:
    """How many bytes are given from a position that `check_piece` lets pass: one at least, or nobody would come on."""
    return min(size_in_bytes - position, max(1, min(asked_bytes, max_bytes)))
