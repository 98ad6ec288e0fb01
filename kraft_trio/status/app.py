"""Which path is answered with what."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from kraft_trio.dashboard.app import ALLOWED, EXPLAIN, Pages, error
from kraft_trio.http.exchange import BodyTooLarge, Disconnected, Endpoint, Exchange
from kraft_trio.http.stream_places import StreamPlaces
from kraft_trio.metrics.text_format import PROMETHEUS
from kraft_trio.node_tree import NodeTree
from kraft_trio.status.explained import Explained
from kraft_trio.status.health import Check, as_text, liveness, readiness
from kraft_trio.status.node_status import NodeStatus
from kraft_trio.tracing.event_feed import EventFeed

REQUESTS_PER_S: Final = 50
"""Of all clients.  Further requests wait for their turn, so that a flood of them leaves the event loop to the node."""
EXPLANATIONS_PER_S: Final = 10
"""Of all clients, too: one costs about ten times what another answer does.  They wait apart from other requests."""
MAX_BODY_BYTES: Final = 1024
HEARTBEAT_S: Final = 15.0
"""A stream without events sends an empty comment so often, which finds out clients that are gone."""

TEXT: Final = b"text/plain; charset=utf-8"
OPEN_METRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
EVENTS: Final = b"text/event-stream"


class Turns:
    """Has those who want something wait for their turn, in the order in which they come."""

    def __init__(self, per_s: int) -> None:
        self._pause_s = 1 / per_s
        self._next_s = 0.0

    async def wait(self) -> None:
        turn_s = max(self._next_s, trio.current_time())
        self._next_s = turn_s + self._pause_s
        await trio.sleep_until(turn_s)


class PacedEndpoint:
    """Has every request wait for its turn, also one that will be refused."""

    def __init__(self, inner: Endpoint) -> None:
        self._inner = inner
        self._turns, self._turns_of_explanations = Turns(REQUESTS_PER_S), Turns(EXPLANATIONS_PER_S)

    async def __call__(self, exchange: Exchange) -> None:
        await (self._turns_of_explanations if exchange.path == EXPLAIN else self._turns).wait()
        await self._inner(exchange)


class StatusApplication:
    """Answers the requests of one node's HTTP listener.  All of them only read."""

    def __init__(self, tree: NodeTree[Any], status: NodeStatus, feed: EventFeed, pages: Pages) -> None:
        self._tree = tree
        self._feed = feed
        self._status = status
        self._pages = pages
        self._explained = Explained(tree)
        self._readers = StreamPlaces(tree.config.max_http_streams, error, tree.refusals.refused_stream)
        self._endpoints: dict[str, Callable[[Exchange], Awaitable[None]]] = {
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/v1/quorum": self._quorum,
            "/v1/events": self._events,
        }

    async def __call__(self, exchange: Exchange) -> None:
        """Raises Disconnected."""
        try:
            if exchange.path in ALLOWED:
                await self._pages.answer(exchange)
                return
            await exchange.body(MAX_BODY_BYTES)
        except BodyTooLarge:
            await exchange.respond(413, error("the body is too large"))
            return
        endpoint = self._endpoints.get(exchange.path)
        if endpoint is None:
            await exchange.respond(404, error("not found"))
        elif exchange.method not in ("GET", "HEAD"):
            await exchange.respond(405, error("only GET and HEAD are served"))
        else:
            await endpoint(exchange)

    async def _metrics(self, exchange: Exchange) -> None:
        open_metrics = b"application/openmetrics-text" in (exchange.header(b"accept") or b"")
        content = self._tree.metrics.exposition(open_metrics=open_metrics)
        await exchange.respond(200, content, OPEN_METRICS if open_metrics else PROMETHEUS)

    async def _livez(self, exchange: Exchange) -> None:
        await _tell(exchange, liveness(self._tree))

    async def _readyz(self, exchange: Exchange) -> None:
        await _tell(exchange, readiness(self._tree, await self._status.probe.checks()))

    async def _quorum(self, exchange: Exchange) -> None:
        fields = {"node": await self._status.fields(), **await self._explained.fields()}
        await exchange.respond(200, json.dumps(fields).encode())

    async def _events(self, exchange: Exchange) -> None:
        if exchange.method == "HEAD":
            await exchange.respond(200, b"", EVENTS)
            return
        await self._readers.serve(exchange, self._stream_events)

    async def _stream_events(self, exchange: Exchange) -> None:
        with self._feed.reading() as events:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_disconnect, exchange, nursery.cancel_scope)
                await exchange.stream(b": \n\n", EVENTS)
                try:
                    while True:
                        event = b": \n\n"
                        with trio.move_on_after(HEARTBEAT_S):
                            event = await events.receive()
                        await exchange.stream(event, EVENTS)
                except Disconnected:
                    nursery.cancel_scope.cancel()


async def _cancel_at_disconnect(exchange: Exchange, scope: trio.CancelScope) -> None:
    await exchange.wait_for_disconnect()
    scope.cancel()


async def _tell(exchange: Exchange, checks: tuple[Check, ...]) -> None:
    verbose = "verbose" in parse_qs(exchange.query, keep_blank_values=True)
    status, content = as_text(exchange.path.strip("/"), checks, verbose=verbose)
    await exchange.respond(status, content, TEXT)
