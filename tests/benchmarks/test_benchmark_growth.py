"""A log that grows, and observers: the tables and the aims."""

from __future__ import annotations

import pytest

from benchmarks.growth import Part, Start, sections_of
from benchmarks.measurement import LoadResult, ProducerResult
from benchmarks.observers import Run, section_of
from benchmarks.processes import Memory


def part(records: int, mib: float) -> Part:
    memory = {2: Memory(mib + 10, mib), 1: Memory(50.0, 40.0)}
    return Part(ProducerResult("librdkafka", records, 0, 1.0, 5.0), 4.0, memory)


@pytest.mark.parametrize(
    ("last_rate", "last_mib", "met"),
    [(900, 50.0, [True, True]), (890, 50.0, [False, True]), (1000, 50.1, [True, False])],
)
def test_flat_means_in_rate_and_in_memory(last_rate: int, last_mib: float, met: list[bool]) -> None:
    parts = [part(1000, 30.0), *[part(1000, 40.0)] * 6, *[part(last_rate, last_mib)] * 3]
    growth, _ = sections_of(parts, [], 2, "size")
    assert [aim.met for aim in growth.aims] == met
    assert growth.rows[0] == ("1", "1,000", "4.0", "30.0, 40.0"), "the leader's memory first"


def test_a_log_that_is_opened_in_a_process_of_its_own_has_no_memory() -> None:
    starts = [Start("Log.open", 0.01, None), Start("server", 0.5, Memory(55.0, 42.0))]
    _, section = sections_of([part(1000, 40.0)] * 10, starts, 1, "size")
    assert section.rows == (("Log.open", "0.010", "–", "–"), ("server", "0.500", "55.0", "42.0"))


def test_an_observer_costs_what_the_leader_takes_more() -> None:
    result = LoadResult("c", 10, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 50.0, 10)
    section = section_of([Run(0, result, 400.0, 0.0), Run(10, result, 1200.0, 450.0)], "How.")
    assert section.rows == (
        ("0", "1.00", "2.00", "10", "400", "–", "0"),
        ("10", "1.00", "2.00", "10", "1200", "80.0", "450"),
    )
