"""Copies of the producers' states on the way: what a truncation starts from, and how many there are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.producer_history import MAX_KEPT_PRODUCERS, MAX_POINTS, SPACING_BYTES, ProducerHistory
from kraft_trio.protocol.producers import ProducerStates

MIB = SPACING_BYTES


def grown(batches: int, *, producers: int = 1, high_watermark: int | None = None) -> ProducerHistory:
    """A history of batches of one record and 1 MiB each, of producers in turn."""
    states = ProducerStates()
    history = ProducerHistory(0, states)
    for offset in range(batches):
        states.record(offset % producers, 0, offset // producers, offset, offset)
        history.grow(MIB, offset + 1, states, high_watermark)
    return history


def test_points_are_as_far_apart_as_they_should_be() -> None:
    states = ProducerStates()
    history = ProducerHistory(0, states)
    for end in range(1, 11):
        states.record(1, 0, end - 1, end - 1, end - 1)
        history.grow(MIB // 2, end, states)
    assert history.offsets == (0, 2, 4, 6, 8, 10)


def test_truncation_starts_from_the_newest_point_not_above() -> None:
    history = grown(10)
    from_offset, states = history.go_back(7)
    assert from_offset == 7
    assert [summary.batches[-1].last_offset for summary in states] == [6]
    assert history.offsets == tuple(range(8))


def test_a_point_is_not_changed_by_who_goes_back_to_it() -> None:
    history = grown(3)
    _, states = history.go_back(2)
    states.record(9, 0, 0, 2, 2)
    _, again = history.go_back(2)
    assert [summary.producer_id for summary in again] == [0]


def test_points_below_the_high_watermark_go_but_one() -> None:
    assert grown(10, high_watermark=5).offsets == (5, 6, 7, 8, 9, 10)


def test_gaps_stay_small_for_their_distance_from_the_end() -> None:
    history = grown(5_000)
    offsets = history.offsets
    assert len(offsets) <= MAX_POINTS
    assert (offsets[0], offsets[-1]) == (0, 5_000)
    for older, newer in pairwise(offsets):
        assert newer - older <= max(1, (5_000 - older) // 3)


def test_many_producers_make_few_points() -> None:
    states = ProducerStates()
    for producer_id in range(100_000):
        states.record(producer_id, 0, 0, producer_id, producer_id)
    history = ProducerHistory(100_000, states)
    for offset in range(100_000, 100_100):
        states.record(offset % 100_000, 0, 1, offset, offset)
        history.grow(16 * MIB, offset + 1, states)
    assert len(history.offsets) * 100_000 <= MAX_KEPT_PRODUCERS
    assert history.offsets[0] == 100_000
    assert history.offsets[-1] >= 100_098


def test_the_start_moves_up_with_the_logs() -> None:
    history = grown(6)
    from_offset, states = history.newest_until(4)
    history.advance_start(from_offset, states)
    assert (history.start_offset, history.offsets) == (4, (4, 5, 6))


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "truncate", "commit"]), st.integers(1, 3), st.integers(0, 2 * MIB)),
        max_size=80,
    )
)
def test_rewinding_and_recording_is_as_if_nothing_was_dropped(steps: list[tuple[str, int, int]]) -> None:
    log: list[tuple[int, int, int]] = []  # (producer id, base sequence, bytes), one record each
    states = ProducerStates(max_producers=2)
    history = ProducerHistory(0, states)
    high_watermark = 0

    def record(into: ProducerStates, from_offset: int) -> int:
        for offset in range(from_offset, len(log)):
            into.record(log[offset][0], 0, log[offset][1], offset, offset)
        return sum(size for _, _, size in log[from_offset:])

    for step, producer_id, size in steps:
        if step == "write":
            base_sequence = sum(1 for other, _, _ in log if other == producer_id)
            states.record(producer_id, 0, base_sequence, len(log), len(log))
            log.append((producer_id, base_sequence, size))
            history.grow(size, len(log), states, high_watermark)
        elif step == "commit":
            high_watermark = max(high_watermark, len(log) - producer_id)
        else:
            del log[max(high_watermark, len(log) - producer_id) :]
            from_offset, states = history.go_back(len(log))
            history.grow(record(states, from_offset), len(log), states, high_watermark)
        expected = ProducerStates(max_producers=2)
        record(expected, 0)
        assert list(states) == list(expected)
