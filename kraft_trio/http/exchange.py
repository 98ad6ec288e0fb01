"""One HTTP request and its response, as the endpoints see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

JSON: Final = b"application/json"


class Disconnected(Exception):
    """The client is gone, or what it has sent cannot be read any further."""


class BodyTooLarge(Exception):
    """The body is larger than the endpoint takes."""


class Exchange(Protocol):
    """Each method raises Disconnected.  A response is `respond`, or any number of `stream` and then `end`."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str:
        """Without the query."""

    @property
    def query(self) -> str:
        """What follows the question mark."""

    @property
    def peer_host(self) -> str:
        """The client's address."""

    @property
    def has_client_certificate(self) -> bool:
        """Whether the client has shown a certificate, which has been verified."""

    @property
    def has_begun(self) -> bool:
        """Whether the client may have got a part of the response."""

    def header(self, name: bytes) -> bytes | None:
        """The value of a header; `name` is in lower case."""

    async def body(self, max_bytes: int) -> bytes:
        """The whole body.  Raises BodyTooLarge."""

    async def next_part(self) -> bytes:
        """The next part of the body, as soon as it is there, and an empty one after the last.

        The client may take its time.
        """

    async def wait_for_disconnect(self) -> None:
        """Wait until the client is gone.  The body must have been read."""

    async def respond(self, status: int, content: bytes, content_type: bytes = JSON, *, headers: bytes = b"") -> None:
        """Send a whole response.  `headers` are further ones, each with its line end."""

    async def stream(self, content: bytes, content_type: bytes = JSON) -> None:
        """Send a part of the response, after the head with status 200."""

    async def stream_pieces(self, size: int, pieces: AsyncIterator[bytes]) -> None:
        """Send a part of the response, of `size` bytes, which comes in pieces.  The client gets it as one chunk."""

    def hold(self, size: int) -> None:
        """Note that the response takes so many bytes of memory until it is sent, besides what `stream` is given."""

    async def end(self) -> None:
        """Say that the streamed response is complete."""


Endpoint = Callable[[Exchange], Awaitable[None]]
