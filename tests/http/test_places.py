"""Which connection ends, or is refused, when there is no place for it."""

from __future__ import annotations

from kraft_trio.http.places import HttpPlace, HttpPlaces


def entered(places: HttpPlaces, host: str, ended: list[HttpPlace], *, is_waiting: bool = True) -> HttpPlace:
    place = places.enter(host)
    assert isinstance(place, HttpPlace)
    place.is_waiting = lambda: is_waiting
    place.end = lambda: ended.append(place)
    return place


def test_address_ends_its_own_longest_waiting_connection() -> None:
    ended: list[HttpPlace] = []
    places = HttpPlaces(10, 3)
    entered(places, "a", ended, is_waiting=False)
    waiting = [entered(places, "a", ended) for _ in range(2)]
    other = entered(places, "b", ended)
    entered(places, "a", ended)
    assert ended == waiting[:1]
    places.leave(waiting[0])
    entered(places, "a", ended)
    assert ended == waiting
    assert other not in ended


def test_connection_at_work_ends_for_an_address_with_clearly_fewer() -> None:
    """Else one address could keep all others out with requests that it never ends."""
    ended: list[HttpPlace] = []
    places = HttpPlaces(4, 0)
    greedy = [entered(places, "a", ended, is_waiting=False) for _ in range(4)]
    for host in "bc":
        entered(places, host, ended, is_waiting=False)
    assert ended == greedy[:2]
    assert places.enter("c") == "4 are open"
    assert places.enter("a") == "4 are open"


def test_connection_that_waits_ends_before_one_at_work() -> None:
    ended: list[HttpPlace] = []
    places = HttpPlaces(3, 0)
    [_, waiting, _] = [entered(places, "a", ended, is_waiting=is_waiting) for is_waiting in (False, True, False)]
    entered(places, "b", ended)
    assert ended == [waiting]


def test_address_whose_connections_are_all_at_work_is_refused() -> None:
    places = HttpPlaces(10, 2)
    for _ in range(2):
        entered(places, "a", [], is_waiting=False)
    assert places.enter("a") == "a has 2 already"
    assert isinstance(places.enter("b"), HttpPlace)


def test_newcomer_takes_the_place_of_the_address_with_the_most() -> None:
    ended: list[HttpPlace] = []
    places = HttpPlaces(6, 4)
    first = entered(places, "b", ended)
    greedy = [entered(places, "a", ended) for _ in range(4)]
    second = entered(places, "c", ended)
    entered(places, "d", ended)
    assert ended == greedy[:1]
    assert first not in ended
    assert second not in ended


def test_nobody_makes_room_for_an_address_with_as_many() -> None:
    places = HttpPlaces(4, 3)
    for host in "aabb":
        entered(places, host, [])
    assert places.enter("a") == "4 are open"
    assert isinstance(places.enter("c"), HttpPlace)


def test_place_is_free_again() -> None:
    places = HttpPlaces(1, 0)
    place = entered(places, "a", [], is_waiting=False)
    assert places.enter("b") == "1 are open"
    places.leave(place)
    places.leave(place)
    assert isinstance(places.enter("b"), HttpPlace)
