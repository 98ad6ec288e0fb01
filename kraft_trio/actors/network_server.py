"""Binds the listeners, accepts connections up to a limit, and serves each of them in a task of its own."""

from __future__ import annotations

import os

import structlog
import trio

from kraft_trio.actors.request_router import RequestRouter
from kraft_trio.actors.server_connection import ServerConnection
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError
from kraft_trio.wire.immediate_stream import ImmediateStream
from kraft_trio.wire.network import Listener, Network

log = structlog.get_logger(__name__)


class NetworkServer:
    """Owns the listening sockets and the accepted connections.

    A connection that sends what is not the protocol is closed with a line in the log; the others go on.  Requests of
    one connection are handed to their owners in order and answered in order; a full mailbox stops the reading.
    """

    def __init__(
        self,
        network: Network,
        config: NodeConfig,
        router: RequestRouter,
    ) -> None:
        self._network = network
        self._config = config
        self._router = router
        self._connections = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bind every listener, then serve until cancelled.  Raises ConfigError when an address cannot be bound."""
        async with trio.open_nursery() as nursery:
            for listening in self._config.listeners:
                try:
                    listener = await self._network.listen(listening.endpoint)
                except OSError as error:
                    reason = os.strerror(error.errno) if error.errno else str(error)
                    raise ConfigError(f"listeners={listening}: cannot be bound: {reason}") from error
                log.info("listening", listener=listening.name, endpoint=str(listener.endpoint))
                nursery.start_soon(self._accept, nursery, listening.name, listener)
            task_status.started()

    async def _accept(self, nursery: trio.Nursery, listener_name: str, listener: Listener) -> None:
        try:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    log.warning("accept failed", listener=listener_name, reason=str(error))
                    await trio.sleep(0.1)
                    continue
                if self._connections >= self._config.max_connections:
                    log.warning("connection refused: too many", limit=self._config.max_connections)
                    await trio.aclose_forcefully(stream)
                    continue
                nursery.start_soon(self._serve, listener_name, stream)
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _serve(self, listener_name: str, stream: ImmediateStream) -> None:
        self._connections += 1
        try:
            connection = ServerConnection(
                stream,
                listener_name,
                self._router,
                initial_request_bytes=self._config.initial_request_bytes,
                max_request_bytes=self._config.max_request_bytes,
            )
            await connection.run()
        finally:
            self._connections -= 1
