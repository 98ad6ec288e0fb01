"""Decides which connections to keep when there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from kraft_trio.limits.connection_limits import Activity, ConnectionLimits, ConnectionWatch

RESERVED_PLACES: Final = 64
"""Places for controller listeners only, if clients have other listeners.  At most a quarter of all places."""
IDLE_ENOUGH_S: Final = 1.0
"""A connection that has been idle for this long must make room for a new one."""

_LEAD: Final = 2
"""How many places more than the newcomer's an address must have to lose one.  With 1, two addresses that come again at
once would end each other's connections for ever."""


class Placed(Protocol):
    """What this module needs of a connection."""

    @property
    def activity(self) -> Activity: ...

    @property
    def is_of_replica(self) -> bool: ...

    def review(self) -> None: ...

    def close(self) -> None: ...


@attrs.define(eq=False)
class Place:
    """The place of one connection, until `ConnectionPlaces.leave`."""

    listener_name: str
    host: str
    watch: ConnectionWatch
    connection: Placed
    is_leaving: bool = False
    """Whether the connection has been told to close, but has not ended yet."""


class ConnectionPlaces:
    """Owned by NetworkServer.  Nothing here waits; `now_s` never falls from one call to the next."""

    def __init__(
        self,
        *,
        places: int,
        per_host: int,
        reserved_for: frozenset[str],
        limits: ConnectionLimits,
        closed: Callable[[Place, str], object],
    ) -> None:
        """`reserved_for`: listeners with reserved places.  `closed` is called with each closed place, and why."""
        reserved = min(RESERVED_PLACES, places // 4) if reserved_for else 0
        self._all = places
        self._for_others = places - reserved
        self._per_host = per_host
        self._reserved_for = reserved_for
        self._limits = limits
        self._closed = closed
        self._taken: dict[Place, None] = {}
        """Roughly by the time of the last activity: a place that was seen active moves to the end."""
        self._others = 0
        self._hosts: Counter[str] = Counter()
        """Places of each address, without reserved ones."""
        self._all_hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._taken)

    def make_room(self, listener_name: str, host: str, now_s: float) -> str | None:
        """Make a place free, if needed by closing a connection.  Returns why it cannot, or None.

        It closes the longest idle one.  If none is idle, it closes one of the address with the most, as long as that
        has at least two more than the newcomer's.
        """
        is_other = listener_name not in self._reserved_for
        if is_other and self._hosts[host] >= self._per_host:
            return f"{host} has as many as it may: max.connections.per.ip={self._per_host}"
        if len(self._taken) >= self._all or (is_other and self._others >= self._for_others):
            among_others = len(self._taken) < self._all
            reason = "idle, and another one needs the place"
            victim = self._longest_idle(now_s, among_others=among_others)
            if victim is None:
                reason = "its address has the most, and another one needs the place"
                victim = self._one_of_the_most(host, among_others=among_others)
            if victim is None:
                return f"too many: max.connections={self._all}, {self._all - self._for_others} of them reserved"
            self._close(victim, reason)
            self.leave(victim)
        return None

    def take(self, listener_name: str, host: str, connection: Placed, now_s: float) -> Place:
        """Take a place for a connection that `make_room` did not refuse."""
        place = Place(listener_name, host, ConnectionWatch(self._limits, now_s), connection)
        self._taken[place] = None
        self._all_hosts[host] += 1
        if listener_name not in self._reserved_for:
            self._others += 1
            self._hosts[host] += 1
        return place

    def leave(self, place: Place) -> None:
        """Free the place of a connection that ends.  A second call does nothing."""
        if place not in self._taken:
            return
        del self._taken[place]
        _count_down(self._all_hosts, place.host)
        if place.listener_name not in self._reserved_for:
            self._others -= 1
            _count_down(self._hosts, place.host)

    def look_at_all(self, now_s: float) -> None:
        """Close the connections that exceed a limit, and see which ones are still those of replicas."""
        for place in list(self._taken):
            place.connection.review()
            reason = self._look(place, now_s)
            if reason is not None and not place.is_leaving:
                self._close(place, reason)

    def _look(self, place: Place, now_s: float) -> str | None:
        quiet_since_s = place.watch.quiet_since_s
        reason = place.watch.look(place.connection.activity, now_s)
        if place.watch.quiet_since_s != quiet_since_s:
            self._taken[place] = self._taken.pop(place)
        return reason

    def _longest_idle(self, now_s: float, *, among_others: bool) -> Place | None:
        """The longest idle client connection; with `among_others`, one without a reserved place."""
        for place in list(self._taken):
            if now_s - place.watch.quiet_since_s < IDLE_ENOUGH_S:
                return None
            if place.connection.is_of_replica or (among_others and self._is_reserved(place)):
                continue
            self._look(place, now_s)
            if place.watch.is_idle and now_s - place.watch.quiet_since_s >= IDLE_ENOUGH_S:
                return place
        return None

    def _one_of_the_most(self, newcomer: str, *, among_others: bool) -> Place | None:
        """The longest quiet client connection of the address with the most, if the newcomer's has clearly fewer."""
        hosts = self._hosts if among_others else self._all_hosts
        greedy = max(hosts, key=lambda host: hosts[host])
        if hosts[greedy] < hosts[newcomer] + _LEAD:
            return None
        for place in self._taken:
            is_client = not (place.connection.is_of_replica or (among_others and self._is_reserved(place)))
            if place.host == greedy and is_client:
                return place
        return None

    def _is_reserved(self, place: Place) -> bool:
        return place.listener_name in self._reserved_for

    def _close(self, place: Place, reason: str) -> None:
        place.is_leaving = True
        self._closed(place, reason)
        place.connection.close()


def _count_down(hosts: Counter[str], host: str) -> None:
    hosts[host] -= 1
    if not hosts[host]:
        del hosts[host]
