"""The network as the actors see it: one of the two small interfaces that the simulator replaces (DESIGN D7)."""

from __future__ import annotations

from typing import Protocol

import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.immediate_stream import ImmediateStream
from kraft_trio.wire.os_reason import os_reason
from kraft_trio.wire.tcp_stream import TcpStream


class Listener(Protocol):
    """A bound listening socket."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it is bound; the port is the real one when 0 was asked for."""

    async def accept(self) -> ImmediateStream:
        """The next connection.  Raises trio.ClosedResourceError once closed."""

    async def aclose(self) -> None: ...


class Network(Protocol):
    """Opens and accepts byte streams."""

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        """Open a stream to that endpoint.  Raises NetworkError when it is refused or cannot be resolved."""

    async def listen(self, endpoint: Endpoint) -> Listener:
        """Bind a listener.  Raises OSError when the address is in use or not ours."""


class TcpListener:
    """A Listener over one TCP socket."""

    def __init__(self, inner: trio.SocketListener) -> None:
        self._inner = inner

    @property
    def endpoint(self) -> Endpoint:
        host, port = self._inner.socket.getsockname()[:2]
        return Endpoint(host, port)

    async def accept(self) -> ImmediateStream:
        stream = await self._inner.accept()
        taken = TcpStream.taking_over(stream)
        await trio.aclose_forcefully(stream)
        return taken

    async def aclose(self) -> None:
        await self._inner.aclose()


class TcpNetwork:
    """The real network."""

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        try:
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        except (OSError, ValueError) as error:  # ValueError: a host name that no resolver could be asked for
            raise NetworkError(f"cannot connect: {os_reason(error)}") from error
        taken = TcpStream.taking_over(stream)
        await trio.aclose_forcefully(stream)
        return taken

    async def listen(self, endpoint: Endpoint) -> Listener:
        listeners = await trio.open_tcp_listeners(endpoint.port, host=endpoint.host or None)
        first, *others = listeners
        for other in others:
            await other.aclose()
        return TcpListener(first)
