"""The interface through which actors and clients use the network.  TCP and the simulator implement it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from kraft_trio.protocol.types import Endpoint


class Session(Protocol):
    """The authentication of a connection, which counts for a limited time (KIP-368)."""

    due_s: float
    """When it has to be renewed, on Trio's clock."""

    async def renew(self, connection: Any) -> None:
        """Authenticate again over a `wire.connection.Connection` on which nothing is unanswered.

        Raises NetworkError.
        """


class ImmediateStream(trio.abc.Stream):
    """The stream that `Network.connect` and `Listener.accept` return.

    One task may send and one may receive at a time; `send_now` counts as a send.
    """

    peer_host: str = ""
    """The address of the peer without its port, or an empty text if it has no address."""
    session: Session | None = None
    """Set if this side has to authenticate again from time to time."""

    async def start(self, take_turn: Callable[[], Awaitable[object]] | None = None) -> None:
        """Do the handshake, if this stream has one.  Raises trio.BrokenResourceError if it fails.

        Otherwise the first call that waits does it.  `take_turn` is awaited before each step that the peer's bytes
        cause, because a signature takes milliseconds.
        """

    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, which has been verified; None if it showed none."""
        return None

    @abstractmethod
    def send_now(self, *parts: bytes | memoryview) -> int:
        """Send as many bytes of the concatenated parts as there is room for, without waiting.

        Returns the number of bytes taken, which may be 0.  The peer may never receive them.  Raises
        trio.BrokenResourceError if the connection is known to be broken, and trio.ClosedResourceError if this stream is
        closed.
        """

    def peer_has_closed(self) -> bool:
        """Whether the peer is known to have closed its side, even if received bytes have not been read yet."""
        return False


class Listener(Protocol):
    """A bound listening socket."""

    @property
    def endpoint(self) -> Endpoint:
        """The bound address.  If port 0 was requested, this has the port that the system chose."""

    async def accept(self) -> ImmediateStream:
        """Wait for the next connection.  Raises trio.ClosedResourceError once the listener is closed."""

    async def aclose(self) -> None: ...


class Network(Protocol):
    """Opens and accepts byte streams."""

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        """Open a stream to the endpoint.  Raises NetworkError if it cannot be resolved or connected to."""

    async def addresses(self, host: str) -> tuple[str, ...]:
        """All addresses of a host name, looked up now.  Raises NetworkError if it cannot be resolved."""

    async def listen(self, endpoint: Endpoint) -> Listener:
        """Bind a listener.  Raises OSError if the address is in use or does not belong to this machine."""
