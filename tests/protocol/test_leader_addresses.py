"""Where a follower looks for its leader."""

from __future__ import annotations

from kraft_trio.protocol.leader_addresses import LeaderAddresses
from kraft_trio.protocol.types import Endpoint

ANNOUNCED, LOGGED, CONFIGURED = (Endpoint(name, 9093) for name in ("announced", "logged", "configured"))


def test_the_announced_address_comes_first() -> None:
    assert LeaderAddresses().next([ANNOUNCED, LOGGED]) == ANNOUNCED
    assert LeaderAddresses().next([None, LOGGED]) == LOGGED
    assert LeaderAddresses().next([None, None]) is None


def test_an_address_that_failed_gives_way_to_the_next_one_at_once() -> None:
    known = [ANNOUNCED, LOGGED, None, CONFIGURED]
    addresses = LeaderAddresses()
    asked = []
    for _ in range(3):
        endpoint = addresses.next(known)
        assert endpoint is not None
        asked.append(endpoint)
        addresses.failed(endpoint)
        if not addresses.has_another(known):
            break
    assert asked == [ANNOUNCED, LOGGED, CONFIGURED]
    assert addresses.next(known) == ANNOUNCED, "the next round"


def test_one_address_under_two_names_is_asked_once_in_a_round() -> None:
    addresses = LeaderAddresses()
    addresses.failed(ANNOUNCED)
    assert not addresses.has_another([ANNOUNCED, ANNOUNCED, None])


def test_an_answer_begins_anew() -> None:
    addresses = LeaderAddresses()
    addresses.failed(ANNOUNCED)
    addresses.answered()
    assert addresses.next([ANNOUNCED, LOGGED]) == ANNOUNCED
