"""A snapshot next to a log: does the log continue after it, does it give way to it, or can the two not be?"""

from __future__ import annotations

import pytest

from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.snapshot_alignment import Alignment, align
from kraft_trio.protocol.types import OffsetAndEpoch

CONTINUES, REPLACED, CONTRADICTS = Alignment.CONTINUES, Alignment.REPLACED, Alignment.CONTRADICTS


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        ((10, 3), CONTINUES),
        ((11, 3), CONTINUES),
        ((11, 4), REPLACED),
        ((11, 2), CONTRADICTS),
        ((20, 3), CONTINUES),
        ((20, 5), REPLACED),
        ((21, 5), CONTINUES),
        ((21, 4), CONTRADICTS),
        ((21, 6), REPLACED),
        ((30, 5), CONTINUES),
        ((30, 6), REPLACED),
        ((31, 5), REPLACED),
        ((31, 6), REPLACED),
        ((31, 4), CONTRADICTS),
        ((10, 4), REPLACED),
        ((10, 1), CONTINUES),
    ],
)
def test_a_log_of_two_epochs(snapshot: tuple[int, int], expected: Alignment) -> None:
    """From offset 10 on epoch 3, from 20 on epoch 5, up to 30."""
    for committed in (None, 30):
        assert align(OffsetAndEpoch(*snapshot), 10, 30, EpochCache([(3, 10), (5, 20)]), committed) is expected


@pytest.mark.parametrize(("committed", "expected"), [(10, REPLACED), (20, REPLACED), (21, CONTRADICTS)])
@pytest.mark.parametrize("offset", [25, 31])
def test_records_of_a_later_epoch_that_were_not_committed(offset: int, committed: int, expected: Alignment) -> None:
    """Their leader had led before the snapshot's last records, of an earlier epoch, were committed."""
    assert align(OffsetAndEpoch(offset, 4), 10, 30, EpochCache([(3, 10), (5, 20)]), committed) is expected


@pytest.mark.parametrize(("offset", "expected"), [(10, CONTINUES), (11, REPLACED)])
def test_a_log_without_records(offset: int, expected: Alignment) -> None:
    assert align(OffsetAndEpoch(offset, 3), 10, 10, EpochCache(), None) is expected


def test_a_snapshot_that_ends_below_the_log_is_not_asked_about() -> None:
    with pytest.raises(AssertionError, match="snapshot 9@3 ends below the log start 10"):
        align(OffsetAndEpoch(9, 3), 10, 30, EpochCache([(3, 10)]), None)
