"""Accepts HTTP connections and has hypercorn's Trio worker serve them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, Framework, LifespanState
from hypercorn.utils import wrap_app

from kraft_trio.logs import get_logger

log = get_logger(__name__)

IDLE_TIMEOUT_S: Final = 300
_NO_LIMIT: Final = 2**62


class HttpServer:
    """Owns the connections.  One that fails is closed and logged; the others go on.

    hypercorn does not let a write be cancelled, so a client that does not read would hold up the node's end.
    Therefore `close` closes the sockets.
    """

    def __init__(self, app: object, listener: trio.SocketListener, max_connections: int) -> None:
        self._config = _config()
        self._app = wrap_app(cast(Framework, app), self._config.wsgi_max_body_size, "asgi")
        self._listener = listener
        self._max_connections = max_connections
        self._context = WorkerContext(None)
        self._streams: set[trio.SocketStream] = set()
        self._is_closed = False

    async def run(self) -> None:
        """Serve until `close` or cancellation."""
        async with trio.open_nursery() as nursery:
            try:
                await trio.serve_listeners(self._serve, [self._listener], handler_nursery=nursery)
            except trio.ClosedResourceError:
                if not self._is_closed:
                    raise

    def close(self) -> None:
        """Stop listening, and break all connections."""
        self._is_closed = True
        self._listener.socket.close()
        for stream in self._streams:
            stream.socket.close()

    async def _serve(self, stream: trio.SocketStream) -> None:
        if len(self._streams) >= self._max_connections or self._is_closed:
            log.warning("connection refused", reason=f"{self._max_connections} are open")
            stream.socket.close()
            return
        self._streams.add(stream)
        state = ConnectionState(LifespanState())
        server: Any = TCPServer(self._app, self._config, self._context, state, stream)  # type: ignore[arg-type]
        try:
            await cast(Awaitable[None], server)
        except Exception as error:
            log.error("connection failed", error=f"{type(error).__name__}: {error}", exc_info=error)
        finally:
            self._streams.discard(stream)
            stream.socket.close()


def _config() -> Config:
    config = Config()
    config.keep_alive_timeout = IDLE_TIMEOUT_S
    config.keep_alive_max_requests = _NO_LIMIT
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger(__name__)
    config.loglevel = "WARNING"
    return config
