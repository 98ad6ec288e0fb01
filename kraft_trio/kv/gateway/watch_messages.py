"""Sends the events of a watch, a part in each turn of the event loop.

A message is one chunk of HTTP, because clients parse each chunk; and a chunk begins with its size.  The events of one
revision may be larger than what a node has in memory, so those of a message of several parts are encoded twice: for
their size, and to be sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

import attrs

from kraft_trio.kv.gateway.read_turns import ReadTurns
from kraft_trio.kv.gateway.request_stream import ResponseStream
from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.responses import Event, WatchResponse
from kraft_trio.kv.watches import event_bytes

KEYS_PER_EVENT: Final = 2
"""Encoding an event costs as much as looking at so many keys."""


async def send_events(
    stream: ResponseStream[Any],
    response: WatchResponse,
    parts: Sequence[tuple[Event, ...]],
    is_fragmented: bool,
    turns: ReadTurns,
) -> None:
    """Send all events as one message, or each part as one if `is_fragmented`.

    `response` has all but the events.
    """
    if len(parts) == 1:
        await stream.send_text(await _whole(response, parts[0], turns))
    elif is_fragmented:
        for number, part in enumerate(parts, 1):
            fragment = attrs.evolve(response, fragment=number < len(parts))
            await stream.send_text(await _whole(fragment, part, turns))
    else:
        await _send_in_parts(stream, response, parts, turns)


async def _send_in_parts(
    stream: ResponseStream[Any], response: WatchResponse, parts: Sequence[tuple[Event, ...]], turns: ReadTurns
) -> None:
    size = 0

    async def pieces() -> AsyncGenerator[bytes]:
        for number, part in enumerate(parts):
            await _begin(part, turns)
            yield (b"," if number else _start(response)) + _encoded(part)
        yield _END

    async for piece in pieces():
        size += len(piece)
    async with aclosing(pieces()) as sent:
        await stream.send_pieces(size, sent)


async def _whole(response: WatchResponse, events: tuple[Event, ...], turns: ReadTurns) -> bytes:
    await _begin(events, turns)
    return _start(response) + _encoded(events) + _END


async def _begin(events: tuple[Event, ...], turns: ReadTurns) -> None:
    """Wait for the turn in which these events may be encoded."""
    await turns.begin_part(keys=len(events) * KEYS_PER_EVENT, size=sum(map(event_bytes, events)))


def _start(response: WatchResponse) -> bytes:
    return b'{"result":' + dumps(response)[:-1] + b',"events":['


def _encoded(events: tuple[Event, ...]) -> bytes:
    return b",".join(map(dumps, events))


_END: Final = b"]}}\n"
