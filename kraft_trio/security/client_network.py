"""The network of a tool that talks to nodes: secured as Kafka's client keys say, or as a node reaches its peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.config import NodeConfig, load_config
from kraft_trio.config.properties import PROTOCOL_OF_CLIENT, read_file, sasl_of_client, tls_of_client
from kraft_trio.config.sasl_fields import Login
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.config.values import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SECURITY_PROTOCOLS, SSL
from kraft_trio.errors import ConfigError
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

_CLIENT_ID: Final = "kraft-cli"
_OF_A_NODE: Final = "node.id"


def client_network(path: str | None) -> Network:
    """The network that the `.properties` file of a Kafka client or of a node asks for; without a file, plain TCP.

    Keys of a client that are not about security have no effect.  Raises ConfigError.
    """
    if path is None:
        return TcpNetwork()
    properties, _ = read_file(path)
    if PROTOCOL_OF_CLIENT not in properties and _OF_A_NODE in properties:
        return peer_network(load_config(path).config)
    try:
        return Security.of_client(properties).network()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def peer_network(config: NodeConfig) -> Network:
    """The network by which a node with this configuration reaches the others.  Raises ConfigError."""
    name = config.controller_listener_name
    sasl = config.sasl_of(name)
    return Security(config.tls_of(name), None if sasl is None else sasl.login_of_node()).network()


@attrs.frozen
class Security:
    """How a client connects.  Can be pickled; its `repr` shows no secret."""

    tls: TlsFields | None = None
    login: Login | None = None

    @classmethod
    def of_client(cls, properties: Mapping[str, str]) -> Security:
        """What the keys of a client ask for; opens no file.  Raises ConfigError, whose text begins with the key."""
        protocol = properties.get(PROTOCOL_OF_CLIENT, PLAINTEXT).strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(f"{PROTOCOL_OF_CLIENT}={protocol}; expected {' or '.join(SECURITY_PROTOCOLS)}")
        return cls(
            tls_of_client(properties) if protocol in (SSL, SASL_SSL) else None,
            sasl_of_client(properties).login_of_client() if protocol in (SASL_PLAINTEXT, SASL_SSL) else None,
        )

    def network(self, client_id: str = _CLIENT_ID) -> Network:
        """The network.  Reads the files that the keys name.  Raises ConfigError."""
        network = TcpNetwork() if self.tls is None else _with_tls(self.tls)
        if self.login is None:
            return network
        from kraft_trio.security.sasl_network import SaslNetwork

        return SaslNetwork(network, self.login, client_id)


def _with_tls(tls: TlsFields) -> Network:
    from kraft_trio.security.tls_context import client_context  # imports cryptography, which takes 0.1 s
    from kraft_trio.security.tls_network import TlsNetwork

    context = client_context(tls)
    return TlsNetwork(TcpNetwork(), lambda: context, {})
