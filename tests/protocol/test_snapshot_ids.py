"""Which snapshot may be taken, and which pieces of one are given."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.snapshot_ids import PieceRefusal, check_piece, next_snapshot_id, piece_size
from kraft_trio.protocol.types import OffsetAndEpoch

EPOCHS = EpochCache([(3, 10), (5, 20)])
NEWEST = OffsetAndEpoch(12, 3)


def id_at(
    end_offset: int, *, high_watermark: int | None = 25, base: int | None = None, newest: OffsetAndEpoch | None = NEWEST
) -> OffsetAndEpoch | None:
    return next_snapshot_id(
        end_offset,
        high_watermark=high_watermark,
        batch_base_offset=end_offset if base is None else base,
        epochs=EPOCHS,
        newest=newest,
    )


@pytest.mark.parametrize(("end_offset", "epoch"), [(13, 3), (20, 3), (21, 5), (25, 5)])
def test_the_epoch_is_that_of_the_last_record(end_offset: int, epoch: int) -> None:
    assert id_at(end_offset) == OffsetAndEpoch(end_offset, epoch)


def test_without_an_earlier_one() -> None:
    assert id_at(13, newest=None) == OffsetAndEpoch(13, 3)
    assert id_at(0, newest=None) is None


@pytest.mark.parametrize("end_offset", [0, 11, 12])
def test_none_is_taken_where_there_is_one_as_new(end_offset: int) -> None:
    assert id_at(end_offset) is None
    assert id_at(end_offset, base=5) is None


@pytest.mark.parametrize(
    ("end_offset", "high_watermark", "base", "message"),
    [
        (26, 25, None, "snapshot up to offset 26: the high watermark is 25, expected that or less"),
        (13, None, None, "the high watermark is unknown"),
        (11, 10, None, "the high watermark is 10"),
        (15, 25, 14, "snapshot up to offset 15: inside the batch that begins at 14"),
    ],
)
def test_what_may_be_undone_or_is_half_a_batch_is_refused(
    end_offset: int, high_watermark: int | None, base: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        id_at(end_offset, high_watermark=high_watermark, base=base)


def test_a_record_before_the_log_has_no_epoch() -> None:
    with pytest.raises(ValueError, match="snapshot up to offset 10: the log does not know the epoch"):
        id_at(10, newest=None)


@pytest.mark.parametrize(
    ("position", "size", "expected"),
    [
        (0, None, PieceRefusal.SNAPSHOT_NOT_FOUND),
        (-1, None, PieceRefusal.SNAPSHOT_NOT_FOUND),
        (0, 100, None),
        (99, 100, None),
        (100, 100, PieceRefusal.POSITION_OUT_OF_RANGE),
        (101, 100, PieceRefusal.POSITION_OUT_OF_RANGE),
        (-1, 100, PieceRefusal.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_piece_begins_in_the_snapshot(position: int, size: int | None, expected: PieceRefusal | None) -> None:
    assert check_piece(position, size) is expected


@pytest.mark.parametrize(
    ("position", "asked", "largest", "expected"),
    [(0, 1000, 1000, 100), (0, 40, 1000, 40), (0, 1000, 30, 30), (90, 40, 1000, 10), (0, 0, 50, 1), (0, -5, 50, 1)],
)
def test_a_piece_is_what_was_asked_for_within_bounds(position: int, asked: int, largest: int, expected: int) -> None:
    assert piece_size(position, 100, asked, largest) == expected
