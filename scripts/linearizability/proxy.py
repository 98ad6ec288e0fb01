"""A TCP proxy on loopback that all connections between nodes go through, so that links between them can be cut.

The node that connects first says who it is and whom it calls, in a line of JSON.  One byte answers it when it is
connected.  While a link is cut silently, no answer comes: as if a SYN had been lost.  On open
connections, data and their end wait.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs
import trio

from scripts.linearizability.links import Direction, Links, Loss

CONNECTED: Final = b"+"
_CHUNK_BYTES: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with which closing a socket resets the connection."""


@attrs.define(eq=False)
class _Connection:
    """Between two nodes.  What it carries from `source` is requests."""

    source: int
    target: int
    streams: tuple[trio.SocketStream, trio.SocketStream]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_reset: bool = False

    def crosses(self, directions: Collection[Direction]) -> bool:
        return (self.source, self.target) in directions or (self.target, self.source) in directions

    def reset(self) -> None:
        self.is_reset = True
        self.scope.cancel()

    async def close(self) -> None:
        for stream in self.streams:
            if self.is_reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            await trio.aclose_forcefully(stream)


@attrs.define(eq=False)
class PeerProxy:
    """Each node is known by its port."""

    node_by_port: Mapping[int, int]
    links: Links = attrs.field(factory=Links)
    port: int = attrs.field(init=False)
    _connections: set[_Connection] = attrs.field(factory=set)
    _cut: set[Direction] = attrs.field(factory=set)

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._accepted, listeners)

    def cut(self, directions: Collection[Direction], loss: Loss) -> None:
        """Cut these links until they heal, for connections that are open and for others."""
        self._cut |= set(directions)
        self.links.cut(directions, loss)
        if loss == "reset":
            self._reset(directions)

    def heal(self, *, delivers: bool) -> None:
        """Have all links work again.

        What was held arrives late, or (unless the network `delivers`) its connections are reset, because the system has
        given up sending again.
        """
        if not delivers:
            self._reset(self._cut)
        self._cut.clear()
        self.links.heal()

    def _reset(self, directions: Collection[Direction]) -> None:
        for connection in self._connections:
            if connection.crosses(directions):
                self.links.effects["connections reset"] += 1
                connection.reset()

    async def _accepted(self, caller: trio.SocketStream) -> None:
        async with caller:
            try:
                hello = json.loads(await _line(caller))
                called = await self._connected(hello)
            except (OSError, trio.BrokenResourceError, EOFError):
                return
            connection = _Connection(hello["node"], self.node_by_port[hello["port"]], (caller, called))
            self._connections.add(connection)
            try:
                await self._carry(connection)
            finally:
                self._connections.discard(connection)
                with trio.CancelScope(shield=True):
                    await connection.close()

    async def _connected(self, hello: Mapping[str, Any]) -> trio.SocketStream:
        """Raises OSError if nobody listens there, or if the connection is refused."""
        source, target = hello["node"], self.node_by_port[hello["port"]]
        if self.links.refuses(source, target):
            self.links.effects["connections refused"] += 1
            raise ConnectionRefusedError
        await self.links.passage((source, target), (target, source), what="connections")
        return await trio.open_tcp_stream("127.0.0.1", hello["port"])

    async def _carry(self, connection: _Connection) -> None:
        """Carry what both nodes send until one of them has closed the connection."""
        caller, called = connection.streams
        there, back = (connection.source, connection.target), (connection.target, connection.source)
        with connection.scope:
            try:
                await caller.send_all(CONNECTED)
            except trio.BrokenResourceError:
                return
            async with trio.open_nursery() as nursery:

                async def carry(source: trio.SocketStream, to: trio.SocketStream, on: Direction) -> None:
                    await self._pump(source, to, on)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(carry, caller, called, there)
                nursery.start_soon(carry, called, caller, back)

    async def _pump(self, source: trio.SocketStream, to: trio.SocketStream, direction: Direction) -> None:
        """Returns when either end has gone and the other one may hear of it."""
        try:
            while data := await source.receive_some(_CHUNK_BYTES):
                await self.links.passage(direction, what="messages")
                try:
                    await to.send_all(data)
                except trio.BrokenResourceError:
                    await self.links.passage(direction[::-1], what="ends")
                    return
        except trio.BrokenResourceError:
            pass
        await self.links.passage(direction, what="ends")


async def _line(stream: trio.SocketStream) -> bytes:
    """Raises EOFError."""
    line = b""
    while not line.endswith(b"\n"):
        data = await stream.receive_some(_CHUNK_BYTES)
        if not data:
            raise EOFError
        line += data
    return line
