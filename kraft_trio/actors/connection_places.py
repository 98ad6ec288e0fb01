"""Who may have a connection when there are not enough places for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from kraft_trio.protocol.connection_limits import Activity, ConnectionLimits, ConnectionWatch

RESERVED_PLACES: Final = 64
"""Kept for the controller listeners, where clients have listeners of their own; a quarter of them all at most."""
IDLE_ENOUGH_S: Final = 1.0
"""Who has done nothing for so long has to make room for a newcomer."""


class Placed(Protocol):
    """A connection as this module sees it."""

    @property
    def activity(self) -> Activity: ...

    @property
    def is_of_replica(self) -> bool: ...

    def close(self) -> None: ...


@attrs.define(eq=False)
class Place:
    """One connection's; held until `ConnectionPlaces.leave`."""

    listener_name: str
    host: str
    watch: ConnectionWatch
    connection: Placed
    is_leaving: bool = False
    """Whether it has been closed, and has not ended yet."""


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
        """Some places are kept for the listeners `reserved_for`; `closed` is told whom this closes, and why."""
        reserved = min(RESERVED_PLACES, places // 4) if reserved_for else 0
        self._all = places
        self._for_others = places - reserved
        self._per_host = per_host
        self._reserved_for = reserved_for
        self._limits = limits
        self._closed = closed
        self._taken: dict[Place, None] = {}
        """By the time when they were last seen to do something, roughly: who was moved to the end, was."""
        self._others = 0
        self._hosts: Counter[str] = Counter()

    def make_room(self, listener_name: str, host: str, now_s: float) -> str | None:
        """Find a newcomer a place, that of the longest idle connection if need be; why there is none, or None."""
        is_other = listener_name not in self._reserved_for
        if is_other and self._hosts[host] >= self._per_host:
            return f"{host} has as many as it may: max.connections.per.ip={self._per_host}"
        if len(self._taken) >= self._all or (is_other and self._others >= self._for_others):
            idle = self._longest_idle(now_s, among_others=len(self._taken) < self._all)
            if idle is None:
                return f"too many: max.connections={self._all}, {self._all - self._for_others} of them reserved"
            self._close(idle, "idle, and another one needs the place")
            self.leave(idle)
        return None

    def take(self, listener_name: str, host: str, connection: Placed, now_s: float) -> Place:
        """The newcomer's, which was not refused."""
        place = Place(listener_name, host, ConnectionWatch(self._limits, now_s), connection)
        self._taken[place] = None
        if listener_name not in self._reserved_for:
            self._others += 1
            self._hosts[host] += 1
        return place

    def leave(self, place: Place) -> None:
        """Its connection has ended, or is about to; a second call does nothing."""
        if place not in self._taken:
            return
        del self._taken[place]
        if place.listener_name not in self._reserved_for:
            self._others -= 1
            self._hosts[place.host] -= 1
            if not self._hosts[place.host]:
                del self._hosts[place.host]

    def look_at_all(self, now_s: float) -> None:
        """Close the connections that have to go."""
        for place in list(self._taken):
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
        """One that no replica has made itself known on; `among_others`: that has no reserved place."""
        for place in list(self._taken):
            if now_s - place.watch.quiet_since_s < IDLE_ENOUGH_S:
                return None
            if place.connection.is_of_replica or (among_others and place.listener_name in self._reserved_for):
                continue
            self._look(place, now_s)
            if place.watch.is_idle and now_s - place.watch.quiet_since_s >= IDLE_ENOUGH_S:
                return place
        return None

    def _close(self, place: Place, reason: str) -> None:
        place.is_leaving = True
        self._closed(place, reason)
        place.connection.close()
