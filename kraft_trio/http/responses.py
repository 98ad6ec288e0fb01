"""HTTP responses as bytes."""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from kraft_trio.http.exchange import JSON

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}
_TEMPLATE: Final = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ndate: %s\r\n%s\r\n"
_CLOSE: Final = b"connection: close\r\n"

_newest_date: tuple[int, bytes] = (0, b"")


def whole(
    status: int,
    content: bytes,
    content_type: bytes = JSON,
    *,
    closes: bool,
    has_body: bool = True,
    headers: bytes = b"",
) -> bytes:
    """A response with its body, or without it in answer to HEAD."""
    length = b"content-length: %d\r\n" % len(content)
    return _head(status, content_type, length + headers + (_CLOSE if closes else b"")) + (content if has_body else b"")


def stream_head(content_type: bytes, *, is_chunked: bool, closes: bool) -> bytes:
    """The head of a response whose parts follow: as chunks, or until the connection ends."""
    return _head(
        200, content_type, (b"transfer-encoding: chunked\r\n" if is_chunked else b"") + (_CLOSE if closes else b"")
    )


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def _head(status: int, content_type: bytes, headers: bytes) -> bytes:
    return _TEMPLATE % (status, _REASONS[status].encode(), content_type, _date(int(time.time())), headers)


def _date(now: int) -> bytes:
    """The date, made once a second."""
    global _newest_date  # noqa: PLW0603
    if _newest_date[0] != now:
        _newest_date = (now, formatdate(now, usegmt=True).encode())
    return _newest_date[1]
