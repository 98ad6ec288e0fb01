"""Where epochs begin and end in a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import at

from kraft_trio.protocol.epoch_cache import EpochCache

# epoch 1 at 0-9, epoch 3 at 10-14, epoch 4 at 15-19
ENTRIES = [(1, 0), (3, 10), (4, 15)]


@pytest.mark.parametrize(
    ("epoch", "start_offset", "changed", "entries"),
    [
        (4, 20, False, ENTRIES),
        (4, 3, False, ENTRIES),
        (5, 20, True, [*ENTRIES, (5, 20)]),
        (7, 15, True, [(1, 0), (3, 10), (7, 15)]),
    ],
    ids=["same epoch", "same epoch at any offset", "new epoch", "an epoch that wrote nothing gives way"],
)
def test_append(epoch: int, start_offset: int, changed: bool, entries: list[tuple[int, int]]) -> None:
    cache = EpochCache(ENTRIES)
    assert cache.append(epoch, start_offset) is changed
    assert list(cache) == entries
    assert cache.entries == tuple(entries)


@pytest.mark.parametrize(
    ("entries", "epoch", "start_offset", "complaint"),
    [
        (ENTRIES, 3, 20, "epoch 3 at offset 20: below epoch 4"),
        (ENTRIES, 5, 14, "start offset 14 is below 15"),
        ([], -1, 0, "0 or more"),
        ([], 0, -1, "0 or more"),
    ],
)
def test_epochs_and_start_offsets_never_fall(
    entries: list[tuple[int, int]], epoch: int, start_offset: int, complaint: str
) -> None:
    cache = EpochCache(entries)
    with pytest.raises(ValueError, match=complaint):
        cache.append(epoch, start_offset)
    assert list(cache) == entries


@pytest.mark.parametrize(
    ("offset", "entries"), [(20, ENTRIES), (16, ENTRIES), (15, ENTRIES[:2]), (10, ENTRIES[:1]), (1, [(1, 0)]), (0, [])]
)
def test_truncate_from_end_drops_epochs_starting_at_or_after(offset: int, entries: list[tuple[int, int]]) -> None:
    cache = EpochCache(ENTRIES)
    cache.truncate_from_end(offset)
    assert list(cache) == entries


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (0, ENTRIES),
        (5, [(1, 5), (3, 10), (4, 15)]),
        (10, [(3, 10), (4, 15)]),
        (14, [(3, 14), (4, 15)]),
        (20, [(4, 20)]),
    ],
)
def test_truncate_from_start_keeps_the_epoch_of_the_new_start(offset: int, entries: list[tuple[int, int]]) -> None:
    cache = EpochCache(ENTRIES)
    cache.truncate_from_start(offset)
    assert list(cache) == entries


def test_truncate_from_start_below_the_first_changes_nothing() -> None:
    cache = EpochCache([(3, 10)])
    cache.truncate_from_start(9)
    assert list(cache) == [(3, 10)]


@pytest.mark.parametrize(
    ("asked", "end"),
    [(0, "0@0"), (1, "10@1"), (2, "10@1"), (3, "15@3"), (4, "20@4"), (5, "20@4"), (99, "20@4")],
)
def test_end_offset_for_epoch(asked: int, end: str) -> None:
    assert EpochCache(ENTRIES).end_offset_for_epoch(asked, 20) == at(end)


def test_epochs_and_offsets_begin_at_0() -> None:
    assert list(EpochCache([(0, 0), (1, 3)])) == [(0, 0), (1, 3)]


def test_an_empty_log_ends_in_epoch_0() -> None:
    cache = EpochCache()
    assert (cache.latest_epoch, len(cache)) == (0, 0)
    assert cache.end_offset_for_epoch(3, 0) == at("0@0")


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, 1), (9, 1), (10, 3), (14, 3), (15, 4), (19, 4), (100, 4), (-1, None)]
)
def test_epoch_for_offset(offset: int, epoch: int | None) -> None:
    assert EpochCache(ENTRIES).epoch_for_offset(offset) == epoch


def test_latest_epoch_and_clear() -> None:
    cache = EpochCache(ENTRIES)
    assert (cache.latest_epoch, len(cache)) == (4, 3)
    cache.clear()
    assert (cache.latest_epoch, len(cache)) == (0, 0)
    cache.append(2, 7)
    assert list(cache) == [(2, 7)]


@given(st.lists(st.integers(0, 3), max_size=30), st.data())
def test_agrees_with_looking_at_every_record(steps: list[int], data: st.DataObject) -> None:
    """A log written out as one epoch per record answers every question the same way, truncated or not."""
    record_epochs: list[int] = []
    cache = EpochCache()
    epoch = 1
    for step in steps:
        epoch += step
        cache.append(epoch, len(record_epochs))
        record_epochs.append(epoch)
    keep = data.draw(st.integers(0, len(record_epochs)))
    del record_epochs[keep:]
    cache.truncate_from_end(keep)
    for asked in range(epoch + 2):
        not_above = [e for e in record_epochs if e <= asked]
        end = cache.end_offset_for_epoch(asked, keep)
        assert end.offset == len(not_above)
        assert end.epoch == (not_above[-1] if not_above else asked if record_epochs else 0)
    assert [cache.epoch_for_offset(offset) for offset in range(keep)] == record_epochs
