"""The messages of one HTTP request, as they arrive, and those of its response.  Each is sent as one chunk."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator
from typing import Final, Generic, TypeVar

from kraft_trio.http.exchange import BodyTooLarge, Exchange
from kraft_trio.kv.errors import REQUEST_TOO_LARGE, Code, KvError
from kraft_trio.kv.gateway.http_errors import error_body, stream_error
from kraft_trio.kv.proto_json import parse_all, parse_first, render, to_json

M = TypeVar("M")

MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Of one message as JSON.  A record is smaller: base64 and escapes take room."""


async def body_of(exchange: Exchange) -> str:
    """The whole body of a request.  Raises KvError if it is too large or no text, and Disconnected."""
    try:
        return (await exchange.body(MAX_REQUEST_BYTES)).decode()
    except BodyTooLarge:
        raise KvError(*REQUEST_TOO_LARGE) from None
    except UnicodeDecodeError:
        raise KvError(Code.INVALID_ARGUMENT, "the request is not UTF-8") from None


async def messages_of(cls: type[M], exchange: Exchange) -> AsyncGenerator[M, None]:
    """The messages of a body, each as soon as it is complete.  The response may go on after the end of the body.

    Raises KvError for what is no message, and Disconnected.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    while True:
        part = await exchange.next_part()
        is_last = not part
        text += decoder.decode(part, final=is_last)
        if len(text) > MAX_REQUEST_BYTES:
            raise KvError(*REQUEST_TOO_LARGE)
        while (found := parse_first(cls, text)) is not None:
            one, text = found
            yield one
        if is_last:
            for _ in parse_all(cls, text):  # whatever is left is no message
                pass
            return


class ResponseStream(Generic[M]):
    """Begins the response with the first message."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, message: M) -> None:
        await self._exchange.stream(to_json({"result": render(message)}) + b"\n")

    async def fail(self, error: KvError) -> None:
        """End the response with an error: as the response if it has not begun."""
        if self._exchange.has_begun:
            await self._exchange.stream(stream_error(error))
            await self._exchange.end()
        else:
            await self._exchange.respond(500 if error.code is Code.UNKNOWN else 400, error_body(error))

    async def end(self) -> None:
        await self._exchange.end()
