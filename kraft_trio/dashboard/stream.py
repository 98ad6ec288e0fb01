"""The stream of server-sent events that the page reads: `board` with the whole picture, `history` with what is new."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import trio

from kraft_trio.dashboard.board import board_of
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.http.exchange import Disconnected, Exchange

EVENTS: Final = b"text/event-stream"
MIN_PAUSE_S: Final = 0.5
"""News of several nodes that come within this time are sent at once."""
MAX_PAUSE_S: Final = 2.0
"""Without news, the picture is sent again after this time, with its ages."""
FIRST_S: Final = 0.3
"""The first picture waits so long for the first answers, which are seldom slower."""


async def stream_board(exchange: Exchange, watch: QuorumWatch, source: Mapping[str, Any]) -> None:
    """Send until the client is gone.  `source` says who asks the nodes."""
    with watch.looking():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_disconnect, exchange, nursery.cancel_scope)
            try:
                await _send(exchange, watch, source)
            except Disconnected:
                nursery.cancel_scope.cancel()


async def _send(exchange: Exchange, watch: QuorumWatch, source: Mapping[str, Any]) -> None:
    await exchange.stream(b"retry: 2000\n\n", EVENTS)
    if not watch.watches:
        with trio.move_on_after(FIRST_S):
            await watch.news.wait()
            await trio.sleep(FIRST_S)
    sent = 0
    while True:
        news = watch.news
        if watch.watches:
            await exchange.stream(event("board", board_of(watch, source)), EVENTS)
        if events := watch.history.since(sent):
            sent = events[-1]["number"] + 1
            await exchange.stream(event("history", events), EVENTS)
        began_s = trio.current_time()
        with trio.move_on_after(MAX_PAUSE_S):
            await news.wait()
        await trio.sleep_until(began_s + MIN_PAUSE_S)


def event(kind: str, value: object) -> bytes:
    """One server-sent event.  JSON has no line breaks, whatever a node has told."""
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


async def _cancel_at_disconnect(exchange: Exchange, scope: trio.CancelScope) -> None:
    await exchange.wait_for_disconnect()
    scope.cancel()
