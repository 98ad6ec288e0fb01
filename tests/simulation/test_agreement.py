"""What replicas of a state machine must agree on, and what is said when they do not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from kraft_trio import CommandFailed, Committed
from kraft_trio.application.machine_adapter import REQUEST_HEADER
from kraft_trio.application.outcomes import Outcome
from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.simulation.commands.agreement import SAME_COMMANDS, SAME_STATES, TOLD_AS_APPLIED, Agreement, same

REQUEST = new_request_id(0, 7)


class Echo:
    """Gives each command back."""

    def apply(self, record: Committed[bytes]) -> bytes:
        return record.value

    def save(self) -> list[bytes]:
        return []


class Growing(Echo):
    """Keeps each command."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def apply(self, record: Committed[bytes]) -> bytes:
        self.values.append(record.value)
        return record.value

    def save(self) -> list[bytes]:
        return list(self.values)


class Reports:
    def __init__(self, make: type[Echo] = Echo) -> None:
        self.titles: list[str] = []
        self.facts: list[tuple[str, ...]] = []
        self.agreement = Agreement(make, self)

    def __call__(self, title: str, facts: tuple[str, ...], nodes: Collection[int] = ()) -> None:
        self.titles.append(title)
        self.facts.append(facts)

    def apply(self, offset: int, node: int, before: int | None = None, *, request: UUID | None = None) -> None:
        value = b"%d" % offset
        headers = () if request is None else ((REQUEST_HEADER, request.bytes),)
        record = Committed(offset, 0, value, headers=headers)
        self.agreement.apply(record, node, before, lambda: Outcome(value))


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_replicas_that_apply_the_same_are_in_agreement(reports: Reports) -> None:
    for node in (1, 2):
        for offset, before in ((1, -1), (2, 1), (5, 2)):
            reports.apply(offset, node, before)
    assert reports.titles == []
    assert reports.agreement.newest_offset == 5


def test_a_replica_that_leaves_out_a_command_is_found(reports: Reports) -> None:
    for offset in (1, 2, 3):
        reports.apply(offset, 1)
    reports.apply(1, 2, -1)
    reports.apply(3, 2, 1)
    assert reports.titles == [SAME_COMMANDS]
    assert reports.facts == [("node 1 has applied offset 2", "node 2 applies offset 3 after offset 1")]


def test_a_replica_that_applies_more_than_another_is_found(reports: Reports) -> None:
    reports.apply(1, 1)
    reports.apply(3, 1)
    reports.apply(2, 2, 1)
    assert reports.titles == [SAME_COMMANDS]
    assert reports.facts[0][1] == "node 2 applies it"


def test_a_request_at_two_offsets_is_found(reports: Reports) -> None:
    reports.apply(1, 1, request=REQUEST)
    reports.apply(2, 1, request=REQUEST)
    assert reports.titles == [SAME_COMMANDS]


def test_other_states_at_the_same_offset_are_found(reports: Reports) -> None:
    reports.apply(1, 1)
    assert reports.agreement.compares_states_at(1)
    reports.agreement.state_after(1, 1, [])
    reports.agreement.state_after(1, 2, [(None, b"more", ())])
    assert reports.titles == [SAME_STATES]
    assert reports.facts[0][1] == "after offset 1, node 2 saves 1 records, among them b'more'"


def test_states_are_compared_less_often_as_they_grow() -> None:
    reports, compared = Reports(Growing), 0
    for offset in range(1000):
        reports.apply(offset, 1)
        if reports.agreement.compares_states_at(offset):
            state = [(None, b"%d" % value, ()) for value in range(offset + 1)]
            reports.agreement.state_after(offset, 2, state)
            compared += 1
    assert compared == 9
    assert reports.titles == []


class TestClients:
    def test_a_result_that_no_replica_gave_is_found(self, reports: Reports) -> None:
        reports.apply(1, 1, request=REQUEST)
        assert reports.agreement.acknowledged_at(REQUEST, Outcome(b"1"), 1) == 1
        assert reports.titles == []
        reports.agreement.acknowledged_at(REQUEST, Outcome(b"2"), 1)
        assert reports.titles == [TOLD_AS_APPLIED]

    def test_a_result_of_nothing_is_found(self, reports: Reports) -> None:
        reports.agreement.acknowledged_at(REQUEST, Outcome(b"1"), 1)
        assert reports.titles == [TOLD_AS_APPLIED]

    def test_a_refused_request_that_is_applied_is_found(self, reports: Reports) -> None:
        reports.agreement.refused(REQUEST, "not appended")
        assert reports.titles == []
        reports.apply(1, 1, request=REQUEST)
        assert reports.titles == [TOLD_AS_APPLIED]
        reports.agreement.refused(REQUEST, "not appended")
        assert reports.titles == [TOLD_AS_APPLIED] * 2


class Refusal(CommandFailed):
    pass


class Plain:
    pass


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Outcome(1), Outcome(1), True),
        (Outcome(1), Outcome(2), False),
        (Outcome(float("nan")), Outcome(float("nan")), True),
        (Outcome(Plain()), Outcome(Plain()), True),
        (Outcome(Plain()), Outcome(1), False),
        (Outcome(None), Outcome(error=Refusal()), False),
        (Outcome(error=Refusal("a", 1)), Outcome(error=Refusal("a", 1)), True),
        (Outcome(error=Refusal("a", 1)), Outcome(error=Refusal("a", 2)), False),
        (Outcome(error=Refusal("a", 1)), Outcome(error=CommandFailed("a", 1)), True),
        (Outcome(error=Refusal("a", 1)), Outcome(error=ValueError("a", 1)), False),
    ],
)
def test_equal_outcomes(one: Outcome[Any], other: Outcome[Any], expected: bool) -> None:
    assert same(one, other) is expected
    assert same(other, one) is expected
