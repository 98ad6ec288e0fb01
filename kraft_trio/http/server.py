"""Accepts HTTP connections.  Each is served by a task of its own."""

from __future__ import annotations

import socket
from typing import Final

import trio

from kraft_trio.http.connection import HttpConnection, Refusal
from kraft_trio.http.exchange import Endpoint
from kraft_trio.http.limits import HttpLimits
from kraft_trio.logs import get_logger
from kraft_trio.wire.tcp_stream import TcpStream

log = get_logger(__name__)

LOOK_EVERY_S: Final = 1.0
"""Interval between looks for clients that are too slow.  A deadline in each connection's scope would cost more."""
GRACE_S: Final = 1.0
"""Time for the requests that are under way when the server ends."""


class HttpServer:
    """Owns the listener and the connections.  A connection that fails is logged; the others go on."""

    def __init__(
        self, application: Endpoint, listener: trio.SocketListener, limits: HttpLimits, refusal: Refusal
    ) -> None:
        self._application = application
        self._listener = listener
        self._limits = limits
        self._refusal = refusal
        self._connections: set[HttpConnection] = set()
        self._accepting = trio.CancelScope()

    async def run(self) -> None:
        """Serve until `end`, and then until the requests under way are answered, but not for long."""
        async with trio.open_nursery() as looking:
            looking.start_soon(self._look_for_overdue)
            async with trio.open_nursery() as serving:
                with self._accepting:
                    await trio.serve_listeners(self._serve, [self._listener], handler_nursery=serving)
                serving.cancel_scope.deadline = trio.current_time() + GRACE_S
                for connection in self._connections:
                    connection.end()
            looking.cancel_scope.cancel()

    async def _look_for_overdue(self) -> None:
        while True:
            await trio.sleep(LOOK_EVERY_S)
            for connection in self._connections:
                connection.end_if_overdue()

    def end(self) -> None:
        """Stop listening, and end the connections as soon as they are idle."""
        self._accepting.cancel()

    async def _serve(self, accepted: trio.SocketStream) -> None:
        connected = socket.socket(fileno=accepted.socket.detach())
        if len(self._connections) >= self._limits.connections:
            log.warning("connection refused", reason=f"{self._limits.connections} are open")
            connected.close()
            return
        connection = HttpConnection(TcpStream(connected), self._application, self._limits, self._refusal)
        self._connections.add(connection)
        if self._accepting.cancel_called:
            connection.end()
        try:
            await connection.run()
        except Exception as error:
            log.error("connection failed", error=f"{type(error).__name__}: {error}", exc_info=error)
        finally:
            self._connections.discard(connection)
