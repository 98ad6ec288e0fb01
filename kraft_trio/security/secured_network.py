"""The network as a node's configuration secures it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.config import NodeConfig
from kraft_trio.wire.network import Network

if TYPE_CHECKING:
    from kraft_trio.security.credentials import NodeCredentials


def secured(network: Network, config: NodeConfig) -> tuple[Network, NodeCredentials | None]:
    """The network for the node's listeners and connections, and the credentials, which somebody must `look` after.

    Raises ConfigError if a file cannot be used.
    """
    credentials = None
    if config.uses_tls:
        from kraft_trio.security.credentials import NodeCredentials  # imports cryptography, which takes 0.1 s

        network, credentials = NodeCredentials.of(network, config)
    peers = config.sasl_of(config.controller_listener_name)
    if peers is not None:
        from kraft_trio.security.sasl_network import SaslNetwork

        network = SaslNetwork(network, peers.login_of_node(), f"raft-client-{config.node_id}")
    return network, credentials
