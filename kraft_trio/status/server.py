"""The HTTP listener of a node, as an actor next to the node's tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import trio

from kraft_trio.config import NodeConfig
from kraft_trio.dashboard.app import Pages, error
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.http.binding import bound
from kraft_trio.http.exchange import Endpoint as HttpEndpoint
from kraft_trio.http.foreign_pages import PageGuard, guarded
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.server import HttpServer
from kraft_trio.http.stream_places import StreamPlaces
from kraft_trio.logs import get_logger
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.http_users import AuthenticatedEndpoint, HttpUsers
from kraft_trio.status.app import PacedEndpoint, StatusApplication
from kraft_trio.status.explained import config_named_by, endpoints_known_to
from kraft_trio.status.node_status import NodeStatus
from kraft_trio.tracing.event_feed import EventFeed

log = get_logger(__name__)

SEND_S: Final = 10.0
"""Time in which a client must read what is sent to it at once."""
HEAD_BYTES: Final = 8 * 1024


def limits_of(config: NodeConfig) -> HttpLimits:
    """A client can take nothing from the node but these connections, for these times."""
    request_s = config.http_request_timeout_ms / 1000
    return HttpLimits(
        connections=config.max_http_connections,
        per_host=config.max_http_connections_per_ip,
        idle_s=config.http_idle_timeout_ms / 1000,
        head_s=request_s,
        body_s=request_s,
        send_s=SEND_S,
        head_bytes=HEAD_BYTES,
    )


class StatusServer:
    """Owns the listener.  What fails here is logged, and never ends the node."""

    def __init__(self, tree: NodeTree[Any], feed: EventFeed) -> None:
        """Bind the address.  Raises ConfigError."""
        config, [named] = tree.config, tree.config.http_listener
        self._refusals = tree.refusals
        users = self._users(tree)
        listening = bound("kraft.http.listener", named.endpoint, named.name)
        self.endpoint = Endpoint(named.endpoint.host, listening.getsockname()[1])
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        self._watch = QuorumWatch(
            tree.network,
            lambda: endpoints_known_to(tree),
            fetch_timeout_ms=config.fetch_timeout_ms,
            wall_clock_ms=tree.environment.wall_clock_ms,
            command_config=config_named_by(tree),
        )

        def source() -> Mapping[str, Any]:
            return {"kind": "node", "nodeId": tree.key.id, "clusterId": tree.cluster_id}

        lookers = StreamPlaces(config.max_http_streams, error, tree.refusals.refused_stream)
        pages = Pages(self._watch, source, lookers)
        application: HttpEndpoint = StatusApplication(tree, NodeStatus(tree, feed), feed, pages)
        if users is not None:
            delay_s = config.failed_authentication_delay_ms / 1000
            application = AuthenticatedEndpoint(application, users, delay_s, self._failed_authentication, error)
        https = None if tree.credentials is None else tree.credentials.https
        self._server = HttpServer(
            PacedEndpoint(guarded(application, PageGuard(config.http_names()), error)),
            self._listener,
            limits_of(config),
            error,
            tls=None if https is None else https.current,
            refused=self._refused_connection,
            cut=self._cut_connection,
            handshake_failed=self._failed_handshake,
        )

    @staticmethod
    def _users(tree: NodeTree[Any]) -> HttpUsers | None:
        """The users that are asked for their passwords, if any.  Raises ConfigError."""
        if not tree.config.http_users_file:
            return None
        users = HttpUsers(tree.config.http_users_file)
        tree.http_files = (users.files,)
        return users

    def _failed_authentication(self) -> None:
        self._refusals.authentications += 1

    def _refused_connection(self) -> None:
        self._refusals.connections += 1

    def _cut_connection(self) -> None:
        self._refusals.cut_connections += 1

    def _failed_handshake(self) -> None:
        self._refusals.tls_handshakes += 1

    async def run(self) -> None:
        """Serve until cancelled."""
        log.info("listening", listener="http", endpoint=str(self.endpoint))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch.run)
                await self._server.run()
        except Exception as failure:
            log.error("the HTTP listener failed", error=f"{type(failure).__name__}: {failure}", exc_info=failure)

    def close(self) -> None:
        """Close the socket, whether or not `run` was called."""
        self._listener.socket.close()
