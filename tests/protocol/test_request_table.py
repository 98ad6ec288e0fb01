"""The table of requests: a retry is recognized, or refused once the request may have been forgotten."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.request_ids import (
    RANDOM_BITS,
    is_request_id,
    issued_at_ms,
    new_request_id,
    request_id_from_bytes,
)
from kraft_trio.protocol.request_table import AHEAD_MS, AppliedRequest, RequestLimits, RequestTable, Standing

NOW_MS = 1_700_000_000_000


def request(issued_ms: int, timestamp_ms: int | None = None, outcome: bytes = b"") -> AppliedRequest:
    request_id = new_request_id(issued_ms, uuid4().int)
    return AppliedRequest(request_id, issued_ms if timestamp_ms is None else timestamp_ms, outcome)


def table_of(*requests: AppliedRequest, **limits: int) -> RequestTable:
    table = RequestTable(limits=RequestLimits(**limits))
    for one in requests:
        table.add(one)
    return table


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**RANDOM_BITS - 1))
def test_an_id_tells_when_it_was_issued(now_ms: int, bits: int) -> None:
    request_id = new_request_id(now_ms, bits)
    assert is_request_id(request_id)
    assert request_id.variant == "specified in RFC 4122"
    assert issued_at_ms(request_id) == now_ms
    assert request_id_from_bytes(request_id.bytes) == request_id
    assert new_request_id(now_ms, bits ^ 1) != request_id


@pytest.mark.parametrize("data", [b"", b"x" * 15, UUID(int=1, version=4).bytes, bytes(16)])
def test_other_bytes_are_no_id(data: bytes) -> None:
    assert request_id_from_bytes(data) is None


def test_a_new_request_is_applied_and_then_known() -> None:
    one = request(NOW_MS, outcome=b"result")
    table = table_of()
    assert table.standing(one.request_id, NOW_MS) is Standing.NEW
    table.add(one)
    assert table.standing(one.request_id, NOW_MS) is Standing.APPLIED
    assert table.get(one.request_id) == one


@pytest.mark.parametrize(
    "limits",
    [{"max_requests": 2}, {"max_outcome_bytes": 25}, {"max_age_ms": 1}],
    ids=["count", "bytes", "age"],
)
def test_the_oldest_is_forgotten_and_then_refused(limits: dict[str, int]) -> None:
    requests = [request(NOW_MS + number, outcome=b"0123456789") for number in range(3)]
    table = table_of(*requests, **limits)
    assert list(table) == requests[1:]
    assert table.floor_ms == NOW_MS + 1
    assert table.standing(requests[0].request_id, NOW_MS + 3) is Standing.TOO_OLD
    assert table.standing(request(NOW_MS).request_id, NOW_MS + 3) is Standing.TOO_OLD
    assert table.standing(request(NOW_MS + 1).request_id, NOW_MS + 3) is Standing.NEW


def test_an_outcome_above_the_limit_leaves_an_empty_table() -> None:
    table = table_of(request(NOW_MS, outcome=b"0123456789"), max_outcome_bytes=5)
    assert len(table) == 0
    assert table.standing(request(NOW_MS).request_id, NOW_MS) is Standing.TOO_OLD


def test_what_is_in_the_table_is_known_below_the_floor() -> None:
    late, early = request(NOW_MS + 100), request(NOW_MS)
    table = table_of(late, early, request(NOW_MS + 200), max_requests=2)
    assert table.floor_ms == NOW_MS + 101
    assert table.standing(early.request_id, NOW_MS) is Standing.APPLIED


def test_a_request_ahead_of_its_record_is_refused() -> None:
    table = table_of()
    assert table.standing(request(NOW_MS + AHEAD_MS).request_id, NOW_MS) is Standing.NEW
    assert table.standing(request(NOW_MS + AHEAD_MS + 1).request_id, NOW_MS) is Standing.FROM_THE_FUTURE


def test_one_wrong_clock_does_not_raise_the_floor_above_all() -> None:
    """Neither the id of the node whose clock is a year ahead, nor its record, shuts the others out."""
    year_ms = 365 * 24 * 3600 * 1000
    wrong = request(NOW_MS + year_ms)
    table = table_of(wrong, *(request(NOW_MS + number) for number in range(2)), max_requests=2)
    assert wrong.request_id not in [one.request_id for one in table]
    assert table.floor_ms <= NOW_MS + 1 + AHEAD_MS + 1
    assert table.standing(wrong.request_id, NOW_MS + 2) is not Standing.NEW


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40), st.integers(0, 40))
def test_no_request_is_new_twice(requests: list[tuple[int, int]], saved_after: int) -> None:
    """Whatever the clocks say, also if a snapshot replaces the table on the way; and both replicas agree."""
    limits = RequestLimits(max_requests=5, max_age_ms=10)
    table, other = RequestTable(limits=limits), RequestTable(limits=limits)
    applied: list[UUID] = []
    for number, (issued, stamped) in enumerate(requests):
        if number == saved_after:
            other = RequestTable(list(other), other.floor_ms, limits)
        request_id = new_request_id(NOW_MS + issued, issued)
        standing = table.standing(request_id, NOW_MS + stamped)
        assert other.standing(request_id, NOW_MS + stamped) is standing
        if standing is Standing.NEW:
            assert request_id not in applied
            applied.append(request_id)
            for one in (table, other):
                one.add(AppliedRequest(request_id, NOW_MS + stamped, b""))
        assert (list(other), other.floor_ms) == (list(table), table.floor_ms)
