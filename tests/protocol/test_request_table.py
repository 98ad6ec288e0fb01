"""The table of requests: a retry is recognized, or refused once the request may have been forgotten."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import example, given
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


def table_of(*requests: AppliedRequest, trusts_times: bool = False, **limits: int) -> RequestTable:
    table = RequestTable(limits=RequestLimits(**limits))
    if not trusts_times:
        table.distrust_times()
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


@pytest.mark.parametrize("trusts_times", [False, True])
@pytest.mark.parametrize(
    "limits",
    [{"max_requests": 2}, {"max_outcome_bytes": 25}],
    ids=["count", "bytes"],
)
def test_the_oldest_is_forgotten_and_then_refused(limits: dict[str, int], trusts_times: bool) -> None:
    requests = [request(NOW_MS + number, outcome=b"0123456789") for number in range(3)]
    table = table_of(*requests, trusts_times=trusts_times, **limits)
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


DAY_MS = 24 * 3600 * 1000
YEAR_MS = 365 * DAY_MS


def applied_by(table: RequestTable, issued_ms: int, timestamp_ms: int) -> AppliedRequest:
    """A request of which the table knows nothing, and that it then has."""
    one = request(issued_ms, timestamp_ms)
    assert table.standing(one.request_id, timestamp_ms) is Standing.NEW
    table.add(one)
    return one


@pytest.mark.parametrize("ahead_ms", [3600 * 1000, DAY_MS, YEAR_MS])
def test_once_clocks_are_put_right_new_requests_are_new(ahead_ms: int) -> None:
    """Of all nodes and clients, for an hour: meanwhile everything in the table and much more was issued in the future.

    They stay new when the time comes that the wrong clocks showed.
    """
    table = table_of(max_requests=3)
    hour_ms = 3600 * 1000
    before = [applied_by(table, NOW_MS + number, NOW_MS + number) for number in range(10)]
    ahead = [applied_by(table, at, at) for at in range(NOW_MS + ahead_ms, NOW_MS + ahead_ms + hour_ms, hour_ms // 10)]
    for at in range(NOW_MS + hour_ms, NOW_MS + ahead_ms + 3 * hour_ms, max(ahead_ms // 500, 2 * AHEAD_MS)):
        applied_by(table, at, at)
        applied_by(table, at - AHEAD_MS + 1, at)
        for one in (*before, *ahead):
            if abs(issued_at_ms(one.request_id) - at) > AHEAD_MS:
                assert table.standing(one.request_id, at) is not Standing.NEW


def test_requests_of_right_clocks_are_new_while_others_are_ahead() -> None:
    """Of a minority or a majority of the nodes: their records alternate, each with the time of its own node."""
    table = table_of(max_requests=4)
    forgotten: list[AppliedRequest] = []
    for number in range(100):
        now_ms = NOW_MS + number * 60_000
        wrong_ms = now_ms + DAY_MS
        for at in (now_ms, wrong_ms, wrong_ms):
            forgotten.append(applied_by(table, at, at))
        for one in forgotten[:-60]:
            for at in (now_ms, wrong_ms):
                assert table.standing(one.request_id, at) is not Standing.NEW


@pytest.mark.parametrize("count", [1, 3, 10])
def test_a_clients_year_does_not_shut_others_out(count: int) -> None:
    """Its records, which any client may write, are a year ahead, and so are its ids."""
    table = table_of(max_requests=3)
    for number in range(count):
        applied_by(table, NOW_MS + YEAR_MS + number, NOW_MS + YEAR_MS + number)
    mine = [applied_by(table, NOW_MS + number, NOW_MS + number) for number in range(10)]
    assert table.standing(mine[-1].request_id, NOW_MS + 20) is Standing.APPLIED
    assert table.standing(mine[0].request_id, NOW_MS + 20) is Standing.TOO_OLD
    assert table.standing(mine[0].request_id, NOW_MS + DAY_MS) is Standing.TOO_OLD


def test_no_timestamp_makes_it_forget() -> None:
    table = table_of()
    mine = applied_by(table, NOW_MS, NOW_MS)
    for at in (NOW_MS + YEAR_MS, 0, NOW_MS + DAY_MS):
        applied_by(table, at, at)
    assert table.standing(mine.request_id, NOW_MS + DAY_MS) is Standing.APPLIED


def test_a_clock_that_was_behind_makes_nothing_new_again() -> None:
    table = table_of(max_requests=3)
    mine = [applied_by(table, NOW_MS + number, NOW_MS + number) for number in range(10)]
    for number in range(10):
        applied_by(table, NOW_MS - DAY_MS + number, NOW_MS - DAY_MS + number)
        assert table.standing(mine[number].request_id, NOW_MS - DAY_MS) is not Standing.NEW
    later_ms = NOW_MS + 2 * AHEAD_MS
    applied_by(table, later_ms, later_ms)
    for one in mine:
        assert table.standing(one.request_id, later_ms) is Standing.TOO_OLD


TIMES = st.integers(0, 8).map(lambda number: number * AHEAD_MS // 2)


@example([(4 * AHEAD_MS, 3 * AHEAD_MS), *[(0, 3 * AHEAD_MS)] * 4], 0)  # An id that is as far ahead as it may be.
@given(st.lists(st.tuples(TIMES, TIMES), max_size=60), st.integers(0, 60))
def test_what_is_new_again_had_a_clock_put_back(requests: list[tuple[int, int]], saved_after: int) -> None:
    """Both promises of the module, whatever the clocks say, also if a snapshot replaces the table on the way."""
    limits = RequestLimits(max_requests=3)
    table, other = table_of(max_requests=3), table_of(max_requests=3)
    applied: dict[UUID, tuple[int, int]] = {}
    timestamps: list[int] = []
    for number, (issued, stamped) in enumerate(requests):
        if number == saved_after:
            other = RequestTable(list(other), other.floor_ms, limits, ahead_ms=other.ahead_ms)
        timestamp_ms = NOW_MS + stamped
        forgotten = [one for one in applied if table.get(one) is None]
        for one in forgotten:
            if table.standing(one, timestamp_ms) is Standing.NEW:
                assert abs(issued_at_ms(one) - timestamp_ms) <= AHEAD_MS
                after, _ = applied[one]
                since = [*timestamps[after:], timestamp_ms]
                assert since != sorted(since) or since[0] < max(timestamps[:after], default=0), "no clock was put back"
        request_id = new_request_id(NOW_MS + issued, number)
        standing = table.standing(request_id, timestamp_ms)
        assert other.standing(request_id, timestamp_ms) is standing
        if abs(issued - stamped) <= AHEAD_MS and all(issued_at_ms(one) < NOW_MS + issued for one in forgotten):
            assert standing is Standing.NEW
        if standing is Standing.NEW:
            applied[request_id] = (len(timestamps), timestamp_ms)
            timestamps.append(timestamp_ms)
            for each in (table, other):
                each.add(AppliedRequest(request_id, timestamp_ms, b""))
        assert (list(other), other.floor_ms, other.ahead_ms) == (list(table), table.floor_ms, table.ahead_ms)


class TestTrustingTimes:
    """Logs of older builds give the same state as they gave to those."""

    def test_age_makes_it_forget(self) -> None:
        requests = [request(NOW_MS + number, outcome=b"0123456789") for number in range(3)]
        table = table_of(*requests, trusts_times=True, max_age_ms=1)
        assert list(table) == requests[1:]
        assert table.floor_ms == NOW_MS + 1

    def test_the_floor_of_a_clock_that_was_ahead_stays(self) -> None:
        table = table_of(trusts_times=True, max_requests=1)
        for at in (NOW_MS + DAY_MS, NOW_MS + DAY_MS + 1):
            applied_by(table, at, at)
        mine = request(NOW_MS)
        assert table.standing(mine.request_id, NOW_MS) is Standing.TOO_OLD
        table.distrust_times()
        assert table.standing(mine.request_id, NOW_MS) is Standing.NEW

    def test_one_wrong_clock_does_not_raise_the_floor_above_all(self) -> None:
        """Neither the id of the node whose clock is a year ahead, nor its record, shuts the others out."""
        wrong = request(NOW_MS + YEAR_MS)
        table = table_of(wrong, *(request(NOW_MS + number) for number in range(2)), trusts_times=True, max_requests=2)
        assert wrong.request_id not in [one.request_id for one in table]
        assert table.floor_ms <= NOW_MS + 1 + AHEAD_MS + 1
        assert table.standing(wrong.request_id, NOW_MS + 2) is not Standing.NEW


@pytest.mark.parametrize("trusts_times", [False, True])
@given(
    requests=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40), saved_after=st.integers(0, 40)
)
def test_no_request_is_new_twice(requests: list[tuple[int, int]], saved_after: int, trusts_times: bool) -> None:
    """Whatever clocks say that differ by at most `AHEAD_MS`; also if a snapshot replaces the table on the way."""
    limits = RequestLimits(max_requests=5, max_age_ms=10)
    table, other = RequestTable(limits=limits), RequestTable(limits=limits)
    if not trusts_times:
        table.distrust_times()
        other.distrust_times()
    applied: list[UUID] = []
    for number, (issued, stamped) in enumerate(requests):
        if number == saved_after:
            other = RequestTable(list(other), other.floor_ms, limits, ahead_ms=other.ahead_ms)
        request_id = new_request_id(NOW_MS + issued, issued)
        standing = table.standing(request_id, NOW_MS + stamped)
        assert other.standing(request_id, NOW_MS + stamped) is standing
        if standing is Standing.NEW:
            assert request_id not in applied
            applied.append(request_id)
            for one in (table, other):
                one.add(AppliedRequest(request_id, NOW_MS + stamped, b""))
        assert (list(other), other.floor_ms) == (list(table), table.floor_ms)
