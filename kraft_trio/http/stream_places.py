"""Decides which endless responses an HTTP server keeps: readers of one address cannot keep out those of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from kraft_trio.http.connection import Refusal
from kraft_trio.http.exchange import Exchange
from kraft_trio.http.places import NO_LIMIT, HttpPlaces


class StreamPlaces:
    """Owned by an application, for one of its endpoints.

    If all places are taken, the oldest stream of the address with the most streams ends, as long as the newcomer's has
    at least two less.  Otherwise the newcomer gets status 503.  So browsers, which connect again by themselves, do not
    end each other's streams for ever.
    """

    def __init__(self, places: int, refusal: Refusal, refused: Callable[[], object] = lambda: None) -> None:
        """`refused` is called for each stream that ends for another, and for each newcomer without a place."""
        self._count = places
        self._places = HttpPlaces(places, NO_LIMIT, lead=2)
        self._refusal = refusal
        self._refused = refused

    async def serve(self, exchange: Exchange, stream: Callable[[Exchange], Awaitable[None]]) -> None:
        """Run `stream` in a place of the client's address, or refuse it.  Raises what `stream` raises."""
        place = self._places.enter(exchange.peer_host)
        if isinstance(place, str):
            self._refused()
            reason = f"{self._count} clients read this already, and {exchange.peer_host} has its share of them"
            await exchange.respond(503, self._refusal(reason))
            return
        scope = trio.CancelScope()

        def end() -> None:
            self._refused()
            scope.cancel()

        place.end = end
        try:
            with scope:
                await stream(exchange)
        finally:
            self._places.leave(place)
