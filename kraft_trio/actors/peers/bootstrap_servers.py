"""The configured bootstrap servers, each with all addresses that its name has at the moment.

A name may belong to a load balancer, or to many nodes (a headless service of Kubernetes).  The nodes behind it change,
so each try looks it up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable

import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import NetworkError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.network import Network

log = get_logger(__name__)


class BootstrapServers:
    """What one node is configured with: `controller.quorum.bootstrap.servers`, or else its static voters."""

    def __init__(self, network: Network, config: NodeConfig) -> None:
        self._network = network
        self._own = {endpoint for _, endpoint in config.advertised_endpoints()}
        configured = config.quorum_bootstrap_servers or [voter.endpoint for voter in config.quorum_voters]
        self._servers = tuple(dict.fromkeys(endpoint for endpoint in configured if endpoint not in self._own))

    async def addresses_of(self, server: Endpoint) -> tuple[Endpoint, ...]:
        """All addresses of the host, looked up now.  Empty if the name cannot be resolved."""
        try:
            hosts = await self._network.addresses(server.host)
        except NetworkError as error:
            log.debug("bootstrap server not resolved", server=str(server), reason=str(error))
            return ()
        found = (Endpoint(host, server.port) for host in hosts)
        return tuple(endpoint for endpoint in found if endpoint not in self._own)

    async def ask_all(
        self,
        ask: Callable[[Endpoint], Awaitable[object]],
        *,
        also: Iterable[Endpoint] = (),
        unless: Container[Endpoint | None] = (),
    ) -> None:
        """Call `ask` with every address of every server, and with the endpoints in `also`, all at the same time.

        Servers and addresses in `unless` are left out.
        """
        others = {endpoint for endpoint in also if endpoint not in self._own}

        async def ask_server(server: Endpoint) -> None:
            for endpoint in await self.addresses_of(server):
                if endpoint not in others and endpoint not in unless:
                    nursery.start_soon(ask, endpoint)

        async with trio.open_nursery() as nursery:
            for server in self._servers:
                if server not in unless:
                    nursery.start_soon(ask_server, server)
            for endpoint in sorted(others):
                nursery.start_soon(ask, endpoint)
