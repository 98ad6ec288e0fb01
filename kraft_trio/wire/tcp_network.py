"""The network over TCP."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

import trio

from kraft_trio.errors import NetworkError
from kraft_trio.forked import when_forked
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.name_resolution import NameResolver
from kraft_trio.wire.network import ImmediateStream, Listener
from kraft_trio.wire.os_reason import os_reason
from kraft_trio.wire.tcp_stream import TcpStream

NEXT_ADDRESS_S: Final = 0.25
"""Delay before the next address of a host is tried while an earlier one has not answered."""
BACKLOG: Final = 0xFFFF
"""The most connections that wait to be accepted; the system may set a lower limit."""


class TcpListener:
    """A Listener over one TCP socket."""

    def __init__(self, inner: trio.SocketListener) -> None:
        self._inner = inner
        when_forked(inner.socket, _close_in_child)

    @property
    def endpoint(self) -> Endpoint:
        host, port = self._inner.socket.getsockname()[:2]
        return Endpoint(host, port)

    async def accept(self) -> ImmediateStream:
        while True:
            taken = TcpStream.taking_over(await self._inner.accept())
            if taken.peer_host:
                return taken
            # Reset already.  What it has sent could still be read, but no rule about hosts would hold for it.
            await taken.aclose()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _close_in_child(listening: trio.socket.SocketType) -> None:
    """Else the child would keep the port bound.  Trio must not hear of it there: its epoll is the parent's."""
    descriptor = listening.detach()
    if descriptor >= 0:
        os.close(descriptor)


class TcpNetwork:
    """The real network."""

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        try:
            addresses = await name_resolver().addresses(endpoint.host)
            return TcpStream.taking_over(await _first_connected(addresses, endpoint.port))
        except (OSError, ValueError) as error:  # ValueError: a malformed host name
            name_resolver().forget(endpoint.host)
            raise NetworkError(f"cannot connect: {os_reason(error)}") from error

    async def addresses(self, host: str) -> tuple[str, ...]:
        resolver = name_resolver()
        resolver.forget(host)
        try:
            return await resolver.addresses(host)
        except ValueError as error:
            raise NetworkError(f"{host!r} is not a host name: {error}") from error

    async def listen(self, endpoint: Endpoint) -> Listener:
        if not endpoint.host:
            return TcpListener(_listening_on_every_interface(endpoint.port))
        listeners = await trio.open_tcp_listeners(endpoint.port, host=endpoint.host)
        first, *others = listeners
        for other in others:
            await other.aclose()
        return TcpListener(first)


_resolver: trio.lowlevel.RunVar[NameResolver] = trio.lowlevel.RunVar("kraft_trio.name_resolver")


def name_resolver() -> NameResolver:
    """The resolver of this `trio.run`.  All nodes and clients in it share its answers and its threads."""
    try:
        return _resolver.get()
    except LookupError:
        resolver = NameResolver()
        _resolver.set(resolver)
        return resolver


async def _first_connected(addresses: Sequence[str], port: int) -> trio.SocketStream:
    """Connect to one of the addresses.  The next one is tried when the previous one has failed or is slow."""
    connected: list[trio.SocketStream] = []
    errors: list[OSError] = []
    try:
        async with trio.open_nursery() as nursery:

            async def attempt(address: str, ended: trio.Event) -> None:
                try:
                    connected.append(await trio.open_tcp_stream(address, port))
                    nursery.cancel_scope.cancel()
                except OSError as error:
                    errors.append(error)
                ended.set()

            for address in addresses:
                ended = trio.Event()
                nursery.start_soon(attempt, address, ended)
                with trio.move_on_after(NEXT_ADDRESS_S):
                    await ended.wait()
    except BaseException:
        for stream in connected:
            await trio.aclose_forcefully(stream)
        raise
    if not connected:
        raise errors[0]
    for stream in connected[1:]:
        await trio.aclose_forcefully(stream)
    return connected[0]


def _listening_on_every_interface(port: int) -> trio.SocketListener:
    """One socket for IPv6 and IPv4, or for IPv4 only if the machine has no IPv6."""
    try:
        return _bound(socket.AF_INET6, "::", port)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
    return _bound(socket.AF_INET, "0.0.0.0", port)


def _bound(family: socket.AddressFamily, address: str, port: int) -> trio.SocketListener:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # IPv4 peers then have addresses of the form ::ffff:a.b.c.d.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((address, port))
        bound.listen(BACKLOG)
        return trio.SocketListener(trio.socket.from_stdlib_socket(bound))
    except BaseException:
        bound.close()
        raise
