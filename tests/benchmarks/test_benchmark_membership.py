"""The arithmetic under the gaps that voter changes cost."""

from __future__ import annotations

import pytest

from benchmarks.membership import ADD, NOTHING, REMOVE_LEADER, REMOVE_LEADER_OF_TWO, Measured, longest_gap, section_of


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (10.0, 12.0, 1.0),
        (10.5, 10.6, 1.0),  # both ends lie in one gap: it counts whole
        (12.0, 14.0, 5.0),  # one that begins within and ends later
        (16.0, 17.5, 5.0),  # one that began before
        (17.0, 18.5, 1.5),  # nothing was acknowledged any more
        (0.0, 10.0, 10.0),  # nothing was acknowledged yet
    ],
)
def test_a_gap_counts_whole_where_any_of_it_lies_within(since: float, until: float, expected: float) -> None:
    assert longest_gap([10.0, 11.0, 12.0, 17.0], since, until) == pytest.approx(expected)


def measured(*, leader_gap: float, other_gap: float, failed: int) -> Measured:
    kinds = {NOTHING: 5000.0, ADD: other_gap, REMOVE_LEADER: leader_gap, REMOVE_LEADER_OF_TWO: 1.0}
    return Measured(
        taken_ms={kind: [1.0] for kind in kinds},
        gap_ms={kind: [1.0, gap] for kind, gap in kinds.items()},
        appended=10,
        failed=failed,
    )


@pytest.mark.parametrize(
    ("leader_gap", "other_gap", "failed", "met"),
    [
        (1000.0, 100.0, 0, [True, True, True]),
        (1001.0, 100.0, 0, [True, False, True]),
        (1000.0, 101.0, 0, [True, True, False]),
        (1000.0, 100.0, 1, [False, True, True]),
    ],
)
def test_each_aim_is_held_against_its_worst_case(
    leader_gap: float, other_gap: float, failed: int, met: list[bool]
) -> None:
    section = section_of(measured(leader_gap=leader_gap, other_gap=other_gap, failed=failed))
    assert [aim.met for aim in section.aims] == met
