"""Reads HTTP/1.1 requests from bytes: llhttp with limits."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import httptools

END: Final = b""
"""The event after the last part of a body."""
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_UNLIKE: Final = (b"transfer-encoding", b"upgrade", b"expect")
"""Headers of requests that are always parsed."""


class BadRequest(Exception):
    """The client sent something that this server does not accept as a request."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@attrs.frozen
class Head:
    """What comes before a request's body.  The names of the headers are in lower case."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    is_http_1_0: bool = False
    keep_alive: bool = True
    """Whether the client may send another request on the connection."""
    query: str = ""

    @property
    def content_length(self) -> int:
        """0 also if the client does not tell the length."""
        # Python refuses to convert thousands of digits, and the zeros before a length are not limited.
        return int(self.headers.get(b"content-length", b"").lstrip(b"0") or b"0")


Event = Head | bytes
"""For each request: its head, the parts of its body, and END."""


class RequestParser:
    """Makes events of the bytes of one connection, also if requests follow one another without a pause.

    An offer to upgrade to another protocol is ignored, as HTTP allows.
    """

    def __init__(self, max_head_bytes: int) -> None:
        """`max_head_bytes` limits the bytes in a row that complete nothing."""
        self._max_head_bytes = max_head_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._events: deque[Event] = deque()
        self.error: BadRequest | None = None
        """Why there will be no more events."""
        self._idle_bytes = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._newest = Head("", "", {})
        self._newest_bytes = b""
        """The bytes of the newest head, if a request with the same head ends where its length says; else empty."""
        self._is_resuming = False
        self.is_between_requests = True
        """Whether nothing of the next request has come."""

    def next_event(self) -> Event | None:
        """The next event; None if more bytes are needed.  Raises BadRequest, once all events before it are taken."""
        if self._events:
            return self._events.popleft()
        if self.error is not None:
            raise self.error
        return None

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def took_end(self) -> bool:
        """Take END if it is the next event, and return whether it was."""
        if self._events and self._events[0] == END:
            self._events.popleft()
            return True
        return False

    def feed(self, data: bytes) -> None:
        """Accept what was received.  `next_event` tells what is in it."""
        if self.error is not None or self._is_like_the_newest(data):
            return
        began_between_requests = self.is_between_requests
        known = len(self._events)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.error = cause if isinstance(cause, BadRequest) else BadRequest(400, f"no HTTP/1.1 request: {error}")
            return
        if len(self._events) > known:
            self._idle_bytes = 0
            self._newest_bytes = self._bytes_of_newest(data) if began_between_requests else b""
        else:
            self._idle_bytes += len(data)
            if self._idle_bytes > self._max_head_bytes:
                self.error = BadRequest(431, f"more than {self._max_head_bytes} bytes of headers")

    def _is_like_the_newest(self, data: bytes) -> bool:
        """Accept one whole request with the same head as the one before, which most are."""
        head = self._newest_bytes
        if not head or not self.is_between_requests or not data.startswith(head):
            return False
        if len(data) != len(head) + self._newest.content_length:
            return False
        self._events.append(self._newest)
        if len(data) > len(head):
            self._events.append(data[len(head) :])
        self._events.append(END)
        self._idle_bytes = 0
        return True

    def _bytes_of_newest(self, data: bytes) -> bytes:
        """The newest head in `data`, if that is one whole request whose end any parser finds by its length."""
        newest = self._newest
        size = len(data) - newest.content_length
        is_whole = self.is_between_requests and data.find(b"\r\n\r\n") + 4 == size
        is_plain = newest.keep_alive and newest.headers.keys().isdisjoint(_UNLIKE)
        return data[:size] if is_whole and is_plain else b""

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            # llhttp leaves the rest to the other protocol.  A new parser continues with the body.
            headers = self._newest.headers
            framing = [b"%s: %s\r\n" % (name, headers[name]) for name in _FRAMING if name in headers]
            self._parser = httptools.HttpRequestParser(self)
            self._is_resuming = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing))

    def on_message_begin(self) -> None:
        self.is_between_requests = False
        self._url, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if not self._is_resuming:
            self._newest = self._head()
            self._headers = {}
            self._events.append(self._newest)

    def _head(self) -> Head:
        is_http_1_0 = self._parser.get_http_version() != "1.1"
        if not is_http_1_0 and b"host" not in self._headers:
            raise BadRequest(400, "no Host header")
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            raise BadRequest(400, "no URL that this server has") from None
        # A client of HTTP/1.0 cannot tell the end of a stream unless the connection ends.
        keep_alive = not is_http_1_0 and self._parser.should_keep_alive()
        method = self._parser.get_method().decode("ascii")
        path, query = (url.path or b"/").decode("latin-1"), (url.query or b"").decode("latin-1")
        return Head(method, path, self._headers, is_http_1_0, keep_alive, query)

    def on_body(self, data: bytes) -> None:
        self._events.append(data)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade() and not self._is_resuming:
            return
        self._is_resuming = False
        self.is_between_requests = True
        self._events.append(END)
