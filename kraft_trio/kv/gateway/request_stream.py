"""The messages of one HTTP request, as they arrive, and those of its response.  Each is sent as one chunk."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator
from typing import Final, Generic, TypeVar

from starlette.types import Receive, Scope, Send

from kraft_trio.kv.errors import REQUEST_TOO_LARGE, Code, KvError
from kraft_trio.kv.gateway.http_errors import error_body, json_response, stream_error
from kraft_trio.kv.proto_json import parse_all, parse_first, render, to_json

M = TypeVar("M")

MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Of one message as JSON.  A record is smaller: base64 and escapes take room."""


class Disconnected(Exception):
    """The client is gone."""


async def body_of(receive: Receive) -> str:
    """The whole body of a request.  Raises KvError if it is too large or no text, and Disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > MAX_REQUEST_BYTES:
            raise KvError(*REQUEST_TOO_LARGE)
        if not message.get("more_body", False):
            try:
                return body.decode()
            except UnicodeDecodeError:
                raise KvError(Code.INVALID_ARGUMENT, "the request is not UTF-8") from None


async def messages_of(cls: type[M], receive: Receive) -> AsyncGenerator[M, None]:
    """The messages of a body, each as soon as it is complete.  The response may go on after the end of the body.

    Raises KvError for what is no message, and Disconnected.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        is_last = not message.get("more_body", False)
        text += decoder.decode(message.get("body", b""), final=is_last)
        if len(text) > MAX_REQUEST_BYTES:
            raise KvError(*REQUEST_TOO_LARGE)
        while (found := parse_first(cls, text)) is not None:
            one, text = found
            yield one
        if is_last:
            for _ in parse_all(cls, text):  # whatever is left is no message
                pass
            return


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ResponseStream(Generic[M]):
    """Begins the response with the first message."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._connection = (scope, receive, send)
        self._send = send
        self._has_begun = False

    async def send(self, message: M) -> None:
        await self._write(to_json({"result": render(message)}) + b"\n")

    async def fail(self, error: KvError) -> None:
        """End the response with an error: as the response if it has not begun."""
        if self._has_begun:
            await self._write(stream_error(error))
            await self.end()
        else:
            await json_response(error_body(error), 500 if error.code is Code.UNKNOWN else 400)(*self._connection)

    async def end(self) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, data: bytes) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            headers = [(b"content-type", b"application/json")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
