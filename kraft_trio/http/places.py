"""Decides which connections an HTTP server keeps: clients of one address cannot keep out those of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import attrs

NO_LIMIT: Final = 0
_LEAD_AT_WORK: Final = 2
"""How many places more than the newcomer's an address must have to lose one whose request is being served."""


@attrs.define(eq=False)
class HttpPlace:
    """The place of one connection, until `HttpPlaces.leave`."""

    host: str
    """The client's address."""
    is_waiting: Callable[[], bool] = lambda: True
    """Whether the connection serves no request: it has none, or the client has not sent all of its head."""
    end: Callable[[], object] = lambda: None
    """End the connection, also within a request."""


class HttpPlaces:
    """Owned by HttpServer.  Nothing here waits."""

    def __init__(self, places: int, per_host: int, lead: int = 1) -> None:
        """`per_host`: places for one address; 0 for no limit.

        `lead`: how many places more than the newcomer's an address must have to lose one that waits.  With 2, clients
        of two addresses that come again at once do not end each other's connections for ever.
        """
        self._places = places
        self._per_host = per_host
        self._lead = lead
        self._taken: dict[HttpPlace, None] = {}
        """In order of arrival."""
        self._hosts: Counter[str] = Counter()

    def enter(self, host: str) -> HttpPlace | str:
        """Take a place.  Returns it, or the reason for which there is none.

        If all are taken, the connection ends that has waited longest among those of the address with the most, as long
        as that address has `lead` more than the newcomer's.  If none of them waits, the oldest one ends, as long as
        there are two more: a request may take as long as its client likes.
        """
        if self._per_host and self._hosts[host] >= self._per_host:
            victim = self._longest_waiting(host)
            if victim is None:
                return f"{host} has {self._per_host} already"
            self._end(victim)
        elif len(self._taken) >= self._places:
            greedy = max(self._hosts, key=lambda one: self._hosts[one])
            victim = self._victim(greedy, self._hosts[greedy] - self._hosts[host])
            if victim is None:
                return f"{self._places} are open"
            self._end(victim)
        place = HttpPlace(host)
        self._taken[place] = None
        self._hosts[host] += 1
        return place

    def leave(self, place: HttpPlace) -> None:
        """Free the place of a connection that ends.  A second call does nothing."""
        if place in self._taken:
            del self._taken[place]
            self._hosts[place.host] -= 1
            if not self._hosts[place.host]:
                del self._hosts[place.host]

    def _victim(self, greedy: str, lead: int) -> HttpPlace | None:
        if lead < self._lead:
            return None
        waiting = self._longest_waiting(greedy)
        if waiting is not None or lead < _LEAD_AT_WORK:
            return waiting
        return next(place for place in self._taken if place.host == greedy)

    def _longest_waiting(self, host: str) -> HttpPlace | None:
        return next((place for place in self._taken if place.host == host and place.is_waiting()), None)

    def _end(self, place: HttpPlace) -> None:
        self.leave(place)
        place.end()
