"""Accepts HTTP connections.  Each is served by a task of its own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Final

import trio

from kraft_trio.http.body_memory import BodyMemory
from kraft_trio.http.connection import HttpConnection, Refusal
from kraft_trio.http.exchange import Endpoint
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.places import HttpPlace, HttpPlaces
from kraft_trio.logs import get_logger
from kraft_trio.wire.tcp_stream import TcpStream
from kraft_trio.wire.tls_stream import TlsStream

log = get_logger(__name__)

LOOK_EVERY_S: Final = 1.0
"""Interval between looks for clients that are too slow.  A deadline in each connection's scope would cost more."""
GRACE_S: Final = 1.0
"""Time for the requests that are under way when the server ends."""


class HttpServer:
    """Owns the listener and the connections.  A connection that fails is logged; the others continue."""

    def __init__(
        self,
        application: Endpoint,
        listener: trio.SocketListener,
        limits: HttpLimits,
        refusal: Refusal,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        refused: Callable[[], object] = lambda: None,
        cut: Callable[[], object] = lambda: None,
        handshake_failed: Callable[[], object] = lambda: None,
    ) -> None:
        """`tls` returns the newest context for HTTPS.

        `refused` is called for each connection without a place, `cut` for each whose client is too slow or idle, or
        that makes room for another, and `handshake_failed` for each that fails in TLS.
        """
        self._application = application
        self._listener = listener
        self._limits = limits
        self._refusal = refusal
        self._tls = tls
        self._refused = refused
        self._cut = cut
        self._handshake_failed = handshake_failed
        self._places = HttpPlaces(limits.connections, limits.per_host)
        self._memory = BodyMemory(limits.body_bytes)
        self._connections: set[HttpConnection] = set()
        self._handshakes = trio.Lock()
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
                if connection.end_if_overdue():
                    self._cut()

    def end(self) -> None:
        """Stop listening, and end the connections as soon as they are idle."""
        self._accepting.cancel()

    async def _serve(self, accepted: trio.SocketStream) -> None:
        taken = accepted.socket
        # With the first three arguments, it asks the system nothing, which could fail.
        tcp = TcpStream(socket.socket(taken.family, taken.type, taken.proto, fileno=taken.detach()))
        place = self._places.enter(tcp.peer_host)
        if isinstance(place, str):
            log.warning("connection refused", listener="http", peer=tcp.peer_host, reason=place)
            self._refused()
            await trio.aclose_forcefully(tcp)
            return
        stream: TcpStream | TlsStream = tcp
        try:
            with trio.CancelScope() as scope:
                place.end = self._for_another(scope.cancel)
                if self._tls is not None:
                    stream = await self._secured(tcp, self._tls())
            if scope.cancel_called:
                await trio.aclose_forcefully(stream)
            else:
                await self._serve_stream(stream, place)
        except trio.BrokenResourceError as error:
            self._handshake_failed()
            log.warning("connection closed", listener="http", peer=tcp.peer_host, reason=str(error))
        finally:
            self._places.leave(place)

    async def _secured(self, stream: TcpStream, context: ssl.SSLContext) -> TlsStream:
        """Do the handshake of TLS.  Raises trio.BrokenResourceError, with the stream closed."""
        secured = TlsStream(stream, context)
        try:
            with trio.move_on_after(self._limits.head_s) as scope:
                await secured.start(self._take_turn)
            if scope.cancelled_caught:
                self._cut()
                raise trio.BrokenResourceError("the TLS handshake did not come in time")
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    async def _take_turn(self) -> None:
        """Wait for a turn of the event loop in which one step of a handshake may be done.

        A signature with a large key takes milliseconds, and a node has other things to do.
        """
        async with self._handshakes:
            await trio.lowlevel.checkpoint()

    def _for_another(self, end: Callable[[], object]) -> Callable[[], None]:
        """What ends a connection whose place another one gets."""

        def cut() -> None:
            self._cut()
            end()

        return cut

    async def _serve_stream(self, stream: TcpStream | TlsStream, place: HttpPlace) -> None:
        connection = HttpConnection(stream, self._application, self._limits, self._refusal, self._memory)
        place.is_waiting, place.end = lambda: connection.is_waiting, self._for_another(connection.cut)
        self._connections.add(connection)
        if self._accepting.cancel_called:
            connection.end()
        try:
            await connection.run()
        except Exception as error:
            log.error("connection failed", error=f"{type(error).__name__}: {error}", exc_info=error)
        finally:
            self._connections.discard(connection)
