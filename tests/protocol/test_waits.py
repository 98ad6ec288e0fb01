"""Whatever timeouts are configured, every wait fits into them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol import waits

timeouts = st.integers(waits.LEAST_TIMEOUT_MS, 2**31 - 1)
backoffs = st.integers(0, 2**31 - 1)


@given(timeouts, timeouts, timeouts, backoffs)
def test_waits_fit(fetch_ms: int, request_ms: int, election_ms: int, configured_ms: int) -> None:
    at_leader = waits.fetch_max_wait_ms(fetch_ms, request_ms)
    answer = waits.fetch_answer_wait_ms(fetch_ms, request_ms)
    backoff = waits.retry_backoff_ms(configured_ms, fetch_ms, election_ms)
    assert 1 <= at_leader <= answer / 2, "an idle leader answers before the Fetch is given up"
    assert answer + 2 * backoff + at_leader / 2 <= fetch_ms, "a lost Fetch is sent again in time"
    assert at_leader + answer + 2 * backoff < 1.5 * fetch_ms, "one lost Fetch does not end contact"
    assert waits.announcement_wait_ms(fetch_ms, request_ms) <= fetch_ms / 2
    assert waits.vote_wait_ms(election_ms, request_ms) + 2 * backoff < 2 * election_ms
    assert waits.discovery_wait_ms(fetch_ms, request_ms) <= fetch_ms
    assert 1 <= waits.reconnect_backoff_max_ms(fetch_ms, election_ms) <= min(fetch_ms / 4, election_ms / 2)


@given(st.integers(1, 10_000), st.floats(0.25, 1), timeouts, backoffs)
def test_candidates_wait_longer_after_each_election_up_to_the_maximum(
    lost: int, part: float, election_ms: int, configured_ms: int
) -> None:
    wait = waits.election_backoff_ms(lost, part, election_ms, configured_ms)
    assert 0 <= wait <= min(configured_ms, election_ms)
    assert wait <= waits.election_backoff_ms(lost + 1, part, election_ms, configured_ms)


def test_the_backoff_of_kip_595() -> None:
    assert [waits.election_backoff_ms(lost, 1, 1000, 1500) for lost in (1, 2, 3, 4)] == [200, 400, 800, 1000]
    assert [waits.election_backoff_ms(lost, 1, 1000, 300) for lost in (1, 2, 3, 4)] == [200, 300, 300, 300]
    assert [waits.election_backoff_ms(lost, 0.25, 1000, 1500) for lost in (1, 2, 3, 90)] == [50, 100, 200, 250]


def test_defaults_are_kafka_s() -> None:
    assert waits.fetch_max_wait_ms(2000, 2000) == 500
    assert waits.retry_backoff_ms(20, 2000, 1000) == 20
    assert waits.reconnect_backoff_max_ms(2000, 1000) == 500
