"""Binds the listeners, and accepts and serves connections."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.network.client_lane import ClientLanes
from kraft_trio.actors.network.connection_places import ConnectionPlaces, Place
from kraft_trio.actors.network.request_router import RequestRouter
from kraft_trio.actors.network.server_connection import ServerConnection
from kraft_trio.actors.waiting.memory_budget import MemoryBudget
from kraft_trio.config import NodeConfig
from kraft_trio.errors import AddressError
from kraft_trio.limits.connection_limits import ConnectionLimits
from kraft_trio.limits.refusals import Refusals
from kraft_trio.logs import get_logger
from kraft_trio.wire.network import Listener, Network

if TYPE_CHECKING:
    from kraft_trio.security.sasl_listener import SaslListener
    from kraft_trio.security.watched_files import WatchedFiles

log = get_logger(__name__)


LOOK_EVERY_S: Final = 1.0
ACCEPT_RETRY_S: Final = 0.1


class NetworkServer:
    """Owns the listening sockets and the accepted connections.

    A connection that breaks the protocol is closed and logged; the others continue.  The requests of a connection are
    routed and answered in order.  While an actor's mailbox is full, the connection is not read.
    """

    def __init__(
        self,
        network: Network,
        config: NodeConfig,
        router: RequestRouter,
        memory: MemoryBudget,
        failures: RequestFailures,
        refusals: Refusals,
    ) -> None:
        self._network = network
        self._config = config
        self._router = router
        self._memory = memory
        self._failures = failures
        self._refusals = refusals
        self._controller_listeners = frozenset(config.controller_listener_names)
        is_shared = self._controller_listeners.issuperset(listener.name for listener in config.listeners)
        self._places = ConnectionPlaces(
            places=config.max_connections,
            per_host=config.max_connections_per_ip,
            reserved_for=frozenset() if is_shared else self._controller_listeners,
            limits=ConnectionLimits(
                first_request_s=config.first_request_timeout_ms / 1000,
                idle_s=config.connections_max_idle_ms / 1000,
                min_bytes_per_s=config.min_transfer_bytes_per_s,
                frame_grace_s=config.request_grace_ms / 1000,
                answer_grace_s=config.answer_grace_ms / 1000,
            ),
            closed=self._cut,
        )
        self._lanes: ClientLanes | None = None
        self._sasl: Mapping[str, SaslListener] = {}
        if config.uses_sasl:
            from kraft_trio.security.sasl_listener import sasl_listeners

            self._sasl = sasl_listeners(config)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._places)

    @property
    def security_files(self) -> tuple[WatchedFiles, ...]:
        """The users of SCRAM."""
        users = (listener.users for listener in self._sasl.values())
        return tuple({id(one): one.files for one in users if one is not None}.values())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bind all listeners, then serve until cancelled.  Raises AddressError if an address cannot be bound."""
        self._lanes = ClientLanes()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lanes.run)
            nursery.start_soon(self._look_at_connections)
            for listening in self._config.listeners:
                try:
                    listener = await self._network.listen(listening.endpoint)
                except OSError as error:
                    reason = os.strerror(error.errno) if error.errno else str(error)
                    raise AddressError(f"listeners={listening}: cannot be bound: {reason}") from error
                log.info("listening", listener=listening.name, endpoint=str(listener.endpoint))
                nursery.start_soon(self._accept, nursery, self._lanes, listening.name, listener)
            task_status.started()

    async def _look_at_connections(self) -> None:
        while True:
            await trio.sleep(LOOK_EVERY_S)
            self._places.look_at_all(trio.current_time())

    async def _accept(self, nursery: trio.Nursery, lanes: ClientLanes, listener_name: str, listener: Listener) -> None:
        tls = self._config.tls_of(listener_name)
        try:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    # Also if no file descriptor is left: the connection then waits in the kernel's queue.
                    log.warning("accept failed", listener=listener_name, reason=str(error))
                    await trio.sleep(ACCEPT_RETRY_S)
                    continue
                refusal = self._places.make_room(listener_name, stream.peer_host, trio.current_time())
                if refusal is not None:
                    self._refusals.connections += 1
                    log.warning("connection refused", listener=listener_name, reason=refusal)
                    await trio.aclose_forcefully(stream)
                    continue
                connection = ServerConnection(
                    stream,
                    listener_name,
                    self._router,
                    lanes=lanes,
                    memory=self._memory,
                    refusals=self._refusals,
                    may_be_replica=listener_name in self._controller_listeners,
                    initial_request_bytes=self._config.initial_request_bytes,
                    max_request_bytes=self._config.max_request_bytes,
                    max_in_flight=self._config.max_in_flight_requests,
                    sasl=self._sasl.get(listener_name),
                    principal_rules=() if tls is None else tls.principal_mapping_rules,
                )
                place = self._places.take(listener_name, stream.peer_host, connection, trio.current_time())
                nursery.start_soon(self._serve, connection, place)
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _serve(self, connection: ServerConnection, place: Place) -> None:
        try:
            await connection.run()
        except Exception as error:
            self._failures.note(error, "connection")
        finally:
            self._places.leave(place)

    def _cut(self, place: Place, reason: str) -> None:
        self._refusals.cut_connections += 1
        log.info("connection closed", listener=place.listener_name, peer=place.host, reason=reason)
