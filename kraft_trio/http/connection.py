"""One connection: reads requests, has the application answer each, and holds the client to limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from math import inf
from typing import Final, Protocol

import trio

from kraft_trio.http.body_memory import BodyMemory
from kraft_trio.http.exchange import JSON, BodyTooLarge, Disconnected, Endpoint
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.parser import END, BadRequest, Head, RequestParser
from kraft_trio.http.responses import CONTINUE, LAST_CHUNK, chunk, stream_head, whole

LINGER_S: Final = 2.0
"""Before a connection is closed, the client may keep sending for so long.  Else it might lose the response."""
MAX_AHEAD_BYTES: Final = 64 * 1024
"""Bytes of the next requests that a client may send while it waits for a lock or reads a stream."""
LARGE_BODY_BYTES: Final = 64 * 1024
"""Smaller bodies do not count as memory."""


Refusal = Callable[[str], bytes]
"""Makes the JSON that tells a client why its bytes are no request."""


class HttpStream(Protocol):
    """What a connection needs of its stream."""

    peer_host: str

    def send_now(self, *parts: bytes | memoryview) -> int: ...
    async def send_all(self, data: bytes | bytearray | memoryview) -> None: ...
    async def send_eof(self) -> None: ...
    def peer_certificate(self) -> bytes | None: ...
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray: ...
    async def aclose(self) -> None: ...


class HttpConnection:
    """Owns the stream, and serves its requests in turn, in one task."""

    def __init__(
        self,
        stream: HttpStream,
        application: Endpoint,
        limits: HttpLimits,
        refusal: Refusal,
        memory: BodyMemory | None = None,
    ) -> None:
        """`memory` is that of the server."""
        self._stream = stream
        self._application = application
        self._limits = limits
        self._refusal = refusal
        self._memory = memory or BodyMemory(limits.body_bytes)
        self._body_bytes = 0
        """The size of a large body that is in memory."""
        self._exchange: HttpExchange | None = None
        self._deadline = inf
        """The time until which the client has to send what is awaited."""
        self._scope = trio.CancelScope()
        self.parser = RequestParser(limits.head_bytes)
        self.is_ending = False
        """Whether no further request is served."""

    @property
    def peer_host(self) -> str:
        return self._stream.peer_host

    @property
    def has_client_certificate(self) -> bool:
        return self._stream.peer_certificate() is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it serves no request."""
        return self._exchange is None

    async def run(self) -> None:
        """Serve until the connection ends.  Raises what the application raises."""
        try:
            with self._scope:
                await self._serve()
            if self._scope.cancelled_caught and not self.is_ending and not self.parser.is_between_requests:
                await self._refuse(BadRequest(408, "the request did not come in time"))
            if not self.is_ending:
                await self._linger()
        except BadRequest as error:
            await self._refuse(error)
            await self._linger()
        except Disconnected:
            pass
        finally:
            self._memory.hold(self, 0)
            with trio.CancelScope(shield=True):
                await self._stream.aclose()

    def end(self) -> None:
        """End the connection: after the request that is under way, unless its response is a stream."""
        self.is_ending = True
        if self._exchange is None or self._exchange.is_streaming:
            self.cut()

    def cut(self) -> None:
        """End the connection at once, also within a request."""
        self.is_ending = True
        self._scope.cancel()

    def end_if_overdue(self) -> bool:
        """End the connection if its client has taken too long.  The server calls this periodically.

        Returns whether this call ended it.
        """
        if trio.current_time() < self._deadline or self._scope.cancel_called:
            return False
        self._scope.cancel()
        return True

    async def _serve(self) -> None:
        while not self.is_ending:
            self._exchange = exchange = HttpExchange(self, await self._next_head())
            try:
                await self._application(exchange)
            except Disconnected:
                if self.parser.error is not None and not exchange.has_begun:
                    raise self.parser.error from None
                raise
            if not exchange.is_reusable:
                return
            self._exchange = None
            self._body_bytes = 0
            self._memory.hold(self, 0)
            if self.parser.has_events:
                await trio.lowlevel.checkpoint()  # others get a turn, even if this client never waits

    async def _next_head(self) -> Head:
        parser = self.parser
        if not parser.has_events:
            now = trio.current_time()
            self._deadline = now + (self._limits.idle_s if parser.is_between_requests else self._limits.head_s)
        while (event := parser.next_event()) is None:
            was_idle = parser.is_between_requests
            await self.receive()
            if was_idle and not parser.is_between_requests:
                self._deadline = trio.current_time() + self._limits.head_s
        assert isinstance(event, Head), "a head comes after the end of the request before"
        self._deadline = inf
        return event

    def hold(self, size: int) -> None:
        """Note the size of the body that is in memory, if it is large."""
        if size >= LARGE_BODY_BYTES:
            self._body_bytes = size
            self._memory.hold(self, size)

    def must_send_body_in_time(self) -> None:
        self._deadline = trio.current_time() + self._limits.body_s

    def has_sent_body(self) -> None:
        self._deadline = inf

    async def receive(self) -> int:
        """Give the parser what comes next, and return its size.  Raises Disconnected."""
        try:
            data = await self._stream.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Disconnected from None
        if not data:
            raise Disconnected
        self.parser.feed(bytes(data))
        return len(data)

    async def send(self, data: bytes, *, is_part: bool = False) -> None:
        """Raises Disconnected, also if the client does not read.

        What it has not read of a part of a stream counts as memory.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            sent = self._stream.send_now(data)
            if sent < len(data):
                if is_part:
                    self._memory.hold(self, self._body_bytes + len(data) - sent)
                with trio.fail_after(self._limits.send_s):
                    await self._stream.send_all(data[sent:])
                if is_part:
                    self._memory.hold(self, self._body_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            raise Disconnected from None

    async def _refuse(self, error: BadRequest) -> None:
        """Answer what is no request.  Without a valid request, nothing is known of the next one's beginning."""
        with trio.move_on_after(LINGER_S):
            await self.send(whole(error.status, self._refusal(error.reason), closes=True))

    async def _linger(self) -> None:
        with trio.move_on_after(LINGER_S):
            try:
                await self._stream.send_eof()
                while await self._stream.receive_some():
                    pass
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass


class HttpExchange:
    """An Exchange on a connection."""

    def __init__(self, connection: HttpConnection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self._is_read = connection.parser.took_end()
        self._is_complete = False
        self.has_begun = False
        """Whether the client may have got a part of the response."""
        self.is_streaming = False
        expectation = b"" if head.is_http_1_0 else head.headers.get(b"expect", b"")
        self._is_awaiting_continue = expectation.lower() == b"100-continue"

    @property
    def method(self) -> str:
        return self._head.method

    @property
    def path(self) -> str:
        return self._head.path

    @property
    def query(self) -> str:
        return self._head.query

    @property
    def peer_host(self) -> str:
        return self._connection.peer_host

    @property
    def has_client_certificate(self) -> bool:
        return self._connection.has_client_certificate

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can serve another request after this one."""
        return self._head.keep_alive and self._is_read and self._is_complete and not self._connection.is_ending

    def header(self, name: bytes) -> bytes | None:
        return self._head.headers.get(name)

    async def body(self, max_bytes: int) -> bytes:
        if self._head.content_length > max_bytes:
            raise BodyTooLarge
        self._connection.must_send_body_in_time()
        body = bytearray()
        while part := await self.next_part():
            body += part
            if len(body) > max_bytes:
                raise BodyTooLarge
            self._connection.hold(len(body))
        self._connection.has_sent_body()
        return bytes(body)

    async def next_part(self) -> bytes:
        if self._is_read:
            return END
        parser = self._connection.parser
        try:
            while (event := parser.next_event()) is None:
                if self._is_awaiting_continue:
                    self._is_awaiting_continue = False
                    await self._connection.send(CONTINUE)
                await self._connection.receive()
        except BadRequest:
            raise Disconnected from None
        assert isinstance(event, bytes), "a body ends before the next head"
        self._is_read = event == END
        return event

    async def wait_for_disconnect(self) -> None:
        ahead = 0
        while ahead <= MAX_AHEAD_BYTES:
            try:
                ahead += await self._connection.receive()
            except Disconnected:
                return

    async def respond(self, status: int, content: bytes, content_type: bytes = JSON, *, headers: bytes = b"") -> None:
        self.has_begun = self._is_complete = True
        closes = not self.is_reusable
        has_body = self.method != "HEAD"
        answer = whole(status, content, content_type, closes=closes, has_body=has_body, headers=headers)
        await self._connection.send(answer)

    async def stream(self, content: bytes, content_type: bytes = JSON) -> None:
        data = self._head_of_stream(content_type)
        data += content if self._head.is_http_1_0 else chunk(content)
        await self._connection.send(data, is_part=True)

    async def stream_pieces(self, size: int, pieces: AsyncIterator[bytes]) -> None:
        data = self._head_of_stream(JSON)
        if not self._head.is_http_1_0:
            data += b"%x\r\n" % size
        async for piece in pieces:
            await self._connection.send(data + piece, is_part=True)
            size -= len(piece)
            data = b""
        assert not size, "a chunk has the size with which it begins"
        if not self._head.is_http_1_0:
            await self._connection.send(b"\r\n")

    def hold(self, size: int) -> None:
        self._connection.hold(size)

    async def end(self) -> None:
        self._is_complete = True
        data = self._head_of_stream(JSON)
        if not self._head.is_http_1_0:
            data += LAST_CHUNK
        if data:
            await self._connection.send(data, is_part=True)

    def _head_of_stream(self, content_type: bytes) -> bytes:
        """What the first part of a streamed response begins with, and nothing later."""
        if self.is_streaming:
            return b""
        self.has_begun = self.is_streaming = True
        return stream_head(content_type, is_chunked=not self._head.is_http_1_0, closes=not self._head.keep_alive)
