"""Positions in checkpoints: what is written is read again, and two of them say what is between."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.spark.live.position import PositionError, StreamPosition, first_offset_between
from kraft_trio.spark.live.ranges import MOST_RANGES, plan_ranges

numbers = st.integers(0, 2**63 - 1)
positions = st.builds(
    StreamPosition,
    cluster_id=st.none() | st.text(),
    offset=numbers,
    epoch=st.integers(-1, 2**31 - 1),
    began_at=numbers,
    losses=numbers,
)
FIELDS = {"clusterId": "c", "offset": 7, "epoch": 2, "beganAt": 3, "losses": 0}


@given(positions)
def test_a_position_is_read_as_it_was_written(position: StreamPosition) -> None:
    assert StreamPosition.of_json(json.loads(json.dumps(position.as_json()))) == position


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"offset": "7"}, "offset='7', expected a whole number of 0 or more"),
        ({"offset": -1}, "offset=-1"),
        ({"offset": True}, "offset=True"),
        ({"epoch": -2}, "epoch=-2, expected a whole number of -1 or more"),
        ({"beganAt": None}, "beganAt=None"),
        ({"losses": 1.5}, "losses=1.5"),
        ({"clusterId": 5}, "clusterId=5, expected a text or null"),
    ],
)
def test_a_bad_position_is_refused_by_the_wrong_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(PositionError, match="checkpoint: ") as refused:
        StreamPosition.of_json({**FIELDS, **change})
    assert named in str(refused.value)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(PositionError, match="offset=None"):
        StreamPosition.of_json({})


def test_a_batch_begins_where_the_one_before_it_ended() -> None:
    start = StreamPosition.beginning("c", 10).advanced_to(20, 1)
    assert first_offset_between(start, start.advanced_to(30, 2)) == 20


def test_a_replanned_first_batch_starts_where_it_started() -> None:
    end = StreamPosition.beginning("c", 10).advanced_to(20, 1)
    asked_again = StreamPosition.beginning("c", 57, 3)
    assert first_offset_between(asked_again, end) == 10


def test_after_a_loss_a_batch_begins_at_the_logs_start() -> None:
    start = StreamPosition.beginning("c", 0).advanced_to(50, 4)
    end = start.after_loss(0).advanced_to(20, 1)
    assert first_offset_between(start, end) == 0
    assert first_offset_between(end, end.advanced_to(30, 1)) == 20


def test_positions_before_and_after_a_loss_are_different_texts() -> None:
    start = StreamPosition.beginning("c", 0)
    assert start.after_loss(0).as_json() != start.as_json()
    assert attrs.evolve(start).as_json() == start.as_json()


@given(
    begin=st.integers(0, 1000), length=st.integers(-5, 500), at_least=st.integers(1, 50), longest=st.integers(1, 600)
)
def test_ranges_cover_what_was_asked_for_in_order(begin: int, length: int, at_least: int, longest: int) -> None:
    ranges = plan_ranges(begin, begin + length, at_least, longest)
    assert [offset for first, end in ranges for offset in range(first, end)] == list(range(begin, begin + length))
    sizes = [end - first for first, end in ranges]
    assert all(0 < size <= longest for size in sizes)
    assert len(ranges) >= min(at_least, max(length, 0))
    if ranges:
        assert max(sizes) - min(sizes) <= 1
        assert len(ranges) == max(min(at_least, length), -(-length // longest))


def test_an_end_that_a_leader_made_up_does_not_fill_the_memory() -> None:
    ranges = plan_ranges(0, 2**63 - 1, at_least=1, longest=100)
    assert len(ranges) == MOST_RANGES
    assert (ranges[0][0], ranges[-1][1]) == (0, 2**63 - 1)
