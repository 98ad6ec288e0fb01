"""The messages of one HTTP request, as they arrive, and those of its response.  Each is sent as one chunk."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Generic, TypeVar

import trio

from kraft_trio.http.exchange import BodyTooLarge, Exchange
from kraft_trio.kv.errors import REQUEST_TOO_LARGE, Code, KvError
from kraft_trio.kv.gateway.http_errors import error_body, stream_error
from kraft_trio.kv.json_text import WHITESPACE
from kraft_trio.kv.proto_json import ObjectEnds, bad_json, check_items, dumps, parse_first

M = TypeVar("M")

MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Of one message as JSON.  A record is smaller: base64 and escapes take room."""
MAX_STREAMED_BYTES: Final = 256 * 1024
"""Of one message of a stream.  None has more than the keys of a range, and a client may take its time to end it."""

MOST_PIECES: Final = 1024
"""The most pieces in which a message is kept.  A client may send single bytes, and each piece takes fifty bytes."""

MESSAGES_PER_TURN: Final = 16
"""Of one stream; what a client has sent at once comes as if one after the other."""


async def body_of(exchange: Exchange) -> str:
    """The whole body of a request.  Raises KvError if it is too large or no text, and Disconnected."""
    try:
        return (await exchange.body(MAX_REQUEST_BYTES)).decode()
    except BodyTooLarge:
        raise KvError(*REQUEST_TOO_LARGE) from None
    except UnicodeDecodeError:
        raise KvError(Code.INVALID_ARGUMENT, "the request is not UTF-8") from None


async def messages_of(cls: type[M], exchange: Exchange) -> AsyncGenerator[M, None]:
    """The messages of a body, each as soon as it is complete.  The response may continue after the end of the body.

    Raises KvError for what is no message, and Disconnected.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    ends = ObjectEnds()
    pieces: list[str] = []
    size = 0
    while True:
        part = await exchange.next_part()
        new = decoder.decode(part, final=not part)
        # A client may send a large message byte by byte: what has come of it is not looked at again and again.
        pieces.append(new if pieces else new.lstrip(WHITESPACE))
        size += len(pieces[-1])
        if size > MAX_STREAMED_BYTES:
            raise KvError(*REQUEST_TOO_LARGE)
        ended = ends.count(new)
        if ended or not part or len(pieces) == 1:
            text = _joined(pieces)
            if ended:
                check_items(text)
            for number in range(1, ended + 1):
                one, text = parse_first(cls, text)
                yield one
                if not number % MESSAGES_PER_TURN:
                    await trio.lowlevel.checkpoint()
            if text and (not part or not text.startswith("{")):  # no message, or not a whole one
                parse_first(cls, text)
                raise bad_json(f"{cls.__name__}: an object expected")
            pieces, size = [text] if text else [], len(text)
        if not part:
            return
        if len(pieces) == MOST_PIECES:
            pieces = [_joined(pieces)]


def _joined(pieces: list[str]) -> str:
    return "".join(pieces)


class ResponseStream(Generic[M]):
    """Begins the response with the first message."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, message: M) -> None:
        await self._exchange.stream(b'{"result":%b}\n' % dumps(message))

    async def send_text(self, message: bytes) -> None:
        """Send a message that is JSON already, with what `send` puts around it."""
        await self._exchange.stream(message)

    async def send_pieces(self, size: int, pieces: AsyncIterator[bytes]) -> None:
        """Send such a message of `size` bytes that comes in pieces."""
        await self._exchange.stream_pieces(size, pieces)

    async def fail(self, error: KvError) -> None:
        """End the response with an error: as the response if it has not begun."""
        if self._exchange.has_begun:
            await self._exchange.stream(stream_error(error))
            await self._exchange.end()
        else:
            await self._exchange.respond(500 if error.code is Code.UNKNOWN else 400, error_body(error))

    async def end(self) -> None:
        await self._exchange.end()
