"""The HTTP listener of a node, as an actor beside the node's tree."""

from __future__ import annotations

from typing import Any, Final

import trio

from kraft_trio.http.binding import bound
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.server import HttpServer
from kraft_trio.logs import get_logger
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.types import Endpoint
from kraft_trio.status.app import StatusApplication, error
from kraft_trio.status.events import EventFeed

log = get_logger(__name__)

LIMITS: Final = HttpLimits(connections=32, idle_s=30.0, head_s=5.0, body_s=5.0, send_s=10.0, head_bytes=8 * 1024)
"""A client can take nothing from the node but these connections, for these times."""


class StatusServer:
    """Owns the listener.  What fails here is logged, and never ends the node."""

    def __init__(self, tree: NodeTree[Any]) -> None:
        """Bind the address.  Raises ConfigError."""
        listening = bound("kraft.http.listener", tree.config.http_listener[0].endpoint)
        self.endpoint = Endpoint(tree.config.http_listener[0].endpoint.host, listening.getsockname()[1])
        self.feed = EventFeed(tree.environment.wall_clock_ms)
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        self._server = HttpServer(StatusApplication(tree, self.feed), self._listener, LIMITS, error)

    async def run(self) -> None:
        """Serve until cancelled."""
        log.info("listening", listener="http", endpoint=str(self.endpoint))
        try:
            await self._server.run()
        except Exception as failure:
            log.error("the HTTP listener failed", error=f"{type(failure).__name__}: {failure}", exc_info=failure)

    def close(self) -> None:
        """Close the socket, whether or not `run` was called."""
        self._listener.socket.close()
