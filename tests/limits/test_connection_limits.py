"""Which connections have to go."""

from __future__ import annotations

import pytest

from kraft_trio.limits.connection_limits import Activity, ConnectionLimits, ConnectionWatch

LIMITS = ConnectionLimits(first_request_s=5, idle_s=600)
KIB = 1024

STORIES = {
    "nothing was ever asked": ([(5, Activity())], "no request within 5 s"),
    "nothing was asked yet": ([(4.9, Activity())], None),
    "asked in time, then idle": ([(4, Activity(1)), (10, Activity(1)), (600, Activity(1))], None),
    "idle for too long": ([(4, Activity(1)), (604, Activity(1))], "idle for 600 s"),
    "idle but for an unanswered request": ([(4, Activity(1, unanswered=1)), (9999, Activity(1, unanswered=1))], None),
    "only a first byte comes": (
        [(1, Activity(0, 1, True)), (7, Activity(0, 1, True))],
        "a request comes too slowly",
    ),
    "a first request trickles": (
        [(1, Activity(0, 1, True)), (4, Activity(0, 4, True)), (7, Activity(0, 7, True))],
        "a request comes too slowly",
    ),
    "a large request comes fast enough": (
        [(1, Activity(1, 1, True)), (30, Activity(1, 25 * 128 * KIB, True))],
        None,
    ),
    "a large request stops coming": (
        [(1, Activity(1, 1, True)), (4, Activity(1, 100 * KIB, True)), (8, Activity(1, 100 * KIB, True))],
        "a request comes too slowly",
    ),
    "one request after another, each seen half": (
        [(second, Activity(second, second * KIB, True)) for second in range(1, 30)],
        None,
    ),
    "an answer is not read for a while": (
        [(1, Activity(1, sent=100, has_unsent=True)), (60, Activity(1, sent=100, has_unsent=True))],
        None,
    ),
    "an answer is never read": (
        [(1, Activity(1, sent=100, has_unsent=True)), (62, Activity(1, sent=100, has_unsent=True))],
        "an answer is taken too slowly",
    ),
    "its peer has closed it": (
        [
            (1, Activity(2, unanswered=1, peer_has_closed=True)),
            (2, Activity(2, unanswered=1, peer_has_closed=True)),
        ],
        "its peer has closed it",
    ),
    "its peer wants no more than the answers": (
        [
            (1, Activity(2, unanswered=2, peer_has_closed=True)),
            (2, Activity(2, unanswered=1, peer_has_closed=True)),
        ],
        None,
    ),
}


@pytest.mark.parametrize(("seen", "expected"), STORIES.values(), ids=STORIES.keys())
def test_connection_has_to_go(seen: list[tuple[float, Activity]], expected: str | None) -> None:
    watch = ConnectionWatch(LIMITS, 0)
    *before, last = [watch.look(activity, now_s) for now_s, activity in seen]
    assert before == [None] * len(before)
    assert last == expected
