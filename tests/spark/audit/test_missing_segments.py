"""Which segments of another replica make a log whole."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest

from kraft_trio.spark.audit.missing_segments import Holding, Segment, missing_segments


def segment(base: int, end: int, *, epoch: int = 1) -> Segment:
    return Segment(end, epoch, is_complete=True, is_intact=True, unreadable=0, content=hash((base, end, epoch)))


def holding(*bounds: int, snapshot_end: int = 0, stored_epoch: int = 1) -> Holding:
    """Segments that begin at these offsets; the last one is the end."""
    segments = {base: segment(base, end) for base, end in pairwise(bounds)}
    return Holding(segments, snapshot_end, stored_epoch)


WHOLE = holding(0, 10, 20, 30, 35)
GAP = Segment(20, 1, is_complete=False, is_intact=False, unreadable=0, content=0)
ZEROS = attrs.evolve(segment(30, 35), is_intact=False, unreadable=1)


def without(*bases: int, snapshot_end: int = 0) -> Holding:
    return Holding({base: one for base, one in WHOLE.segments.items() if base not in bases}, snapshot_end, 1)


def with_one(base: int, one: Segment | None) -> Holding:
    return Holding({**WHOLE.segments, base: one}, 0, 1)


@pytest.mark.parametrize(
    ("broken", "with_tail", "expected"),
    [
        pytest.param(WHOLE, True, [], id="nothing is missing"),
        pytest.param(without(10), False, [10], id="one in the middle"),
        pytest.param(without(10, 20), False, [10, 20], id="two in the middle"),
        pytest.param(with_one(10, None), False, [10], id="an empty one"),
        pytest.param(with_one(10, GAP), False, [10], id="one with a gap"),
        pytest.param(with_one(10, segment(10, 17)), False, [10], id="one that ends early"),
        pytest.param(with_one(30, attrs.evolve(GAP, end=35)), False, [30], id="the last one with a gap"),
        pytest.param(with_one(30, segment(30, 33)), False, [], id="the end, which the node fetches"),
        pytest.param(with_one(30, segment(30, 33)), True, [30], id="the end, which the backup needs"),
        pytest.param(without(20, 30), True, [20, 30], id="the last segments"),
        pytest.param(without(0, 10, 20, 30), True, [0, 10, 20, 30], id="all"),
        pytest.param(without(0, 10, 20, 30, snapshot_end=20), True, [20, 30], id="all behind a snapshot"),
        pytest.param(without(0, 10), False, [0, 10], id="the first ones without a snapshot"),
        pytest.param(without(0, 10, snapshot_end=20), False, [], id="the first ones, which a snapshot covers"),
        pytest.param(without(0, 10, snapshot_end=12), False, [10], id="of the first ones what no snapshot covers"),
        pytest.param(with_one(30, ZEROS), True, [30], id="zeros behind the end"),
        pytest.param(with_one(10, attrs.evolve(GAP, unreadable=1)), False, [], id="damage, for which dd is"),
        pytest.param(holding(0, 10, 15, 40), True, [], id="segments that begin elsewhere"),
        pytest.param(holding(0, 15), True, [], id="a segment that ends elsewhere"),
        pytest.param(with_one(10, attrs.evolve(segment(10, 20), content=1)), True, [], id="another content"),
        pytest.param(attrs.evolve(without(30), stored_epoch=0), True, [], id="an epoch that is not stored"),
        pytest.param(holding(0, 10, 20, 30, 40), True, [], id="a longer log"),
        pytest.param(with_one(30, segment(30, 33, epoch=2)), True, [], id="a shorter log of a later epoch"),
    ],
)
def test_missing_segments(broken: Holding, with_tail: bool, expected: list[int]) -> None:
    assert missing_segments(broken, WHOLE, with_tail=with_tail) == expected


def test_a_log_that_begins_later_repairs_what_it_has() -> None:
    later = Holding({base: one for base, one in WHOLE.segments.items() if base >= 20}, snapshot_end=22)
    assert missing_segments(without(30), later, with_tail=True) == [30]
    assert missing_segments(without(0, 10, 20, 30), later, with_tail=True) == [], "no snapshot would reach its start"


def test_a_damaged_segment_repairs_nothing() -> None:
    damaged = with_one(10, attrs.evolve(segment(10, 20), is_intact=False))
    assert missing_segments(without(10), damaged, with_tail=True) == []
