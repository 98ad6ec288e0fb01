"""What a browser may ask for, on a node or of `kraft dashboard`: the page, its stream, and an explanation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kraft_trio.dashboard.board import explained_fields
from kraft_trio.dashboard.page import page
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.dashboard.stream import EVENTS, stream_board
from kraft_trio.dashboard.told_situation import BadSituation, situation_of_json
from kraft_trio.http.exchange import BodyTooLarge, Exchange
from kraft_trio.http.stream_places import StreamPlaces

MAX_LOOKERS: Final = 8
"""Streams at a time, of `kraft dashboard`."""
MAX_BODY_BYTES: Final = 64 * 1024

HTML: Final = b"text/html; charset=utf-8"
EXPLAIN: Final = "/v1/explain"
ALLOWED: Final = {"/": ("GET", "HEAD"), "/v1/stream": ("GET", "HEAD"), EXPLAIN: ("POST",)}
"""The paths and their methods.  Nothing here changes anything; POST carries what is to be explained."""


class Pages:
    """Answers the paths in ALLOWED, for the node or command that serves them."""

    def __init__(self, watch: QuorumWatch, source: Callable[[], Mapping[str, Any]], places: StreamPlaces) -> None:
        """`source` says who asks the nodes; `places` are those of the streams."""
        self._watch = watch
        self._places = places
        self._source = source
        self._endpoints: dict[str, Callable[[Exchange], Awaitable[None]]] = {
            "/": self._page,
            "/v1/stream": self._stream,
            EXPLAIN: self._explain,
        }

    async def answer(self, exchange: Exchange) -> None:
        """Answer a path of ALLOWED.  The body must not have been read.  Raises Disconnected."""
        allowed = ALLOWED[exchange.path]
        if exchange.method not in allowed:
            await exchange.respond(405, error(f"only {' and '.join(allowed)} are served"))
            return
        await self._endpoints[exchange.path](exchange)

    async def _page(self, exchange: Exchange) -> None:
        await exchange.body(0)
        await exchange.respond(200, page(), HTML)

    async def _stream(self, exchange: Exchange) -> None:
        await exchange.body(0)
        if exchange.method == "HEAD":
            await exchange.respond(200, b"", EVENTS)
            return
        await self._places.serve(exchange, lambda exchange: stream_board(exchange, self._watch, self._source()))

    async def _explain(self, exchange: Exchange) -> None:
        """Explain the situation in the body.  It is forgotten at once."""
        try:
            situation = situation_of_json(await exchange.body(MAX_BODY_BYTES))
        except BadSituation as problem:
            await exchange.respond(400, error(str(problem)))
            return
        await exchange.respond(200, json.dumps(explained_fields(situation)).encode())


class DashboardApplication:
    """What `kraft dashboard` serves."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __call__(self, exchange: Exchange) -> None:
        """Raises Disconnected."""
        try:
            if exchange.path not in ALLOWED:
                await exchange.respond(404, error("not found"))
            else:
                await self._pages.answer(exchange)
        except BodyTooLarge:
            await exchange.respond(413, error("the body is too large"))


def error(reason: str) -> bytes:
    """An error as JSON."""
    return json.dumps({"error": reason}).encode()
