"""The network of a tool that talks to nodes: secured as Kafka's client keys say, or as a node reaches its peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraft_trio.config import NodeConfig, load_config
from kraft_trio.config.properties import read_file, sasl_of_client, tls_of_client
from kraft_trio.config.sasl_fields import Login
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.config.values import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SECURITY_PROTOCOLS, SSL
from kraft_trio.errors import ConfigError
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

_CLIENT_ID: Final = "kraft-cli"
_PROTOCOL: Final = "security.protocol"
_OF_A_NODE: Final = "node.id"


def client_network(path: str | None) -> Network:
    """The network that the `.properties` file of a Kafka client or of a node asks for; without a file, plain TCP.

    Keys of a client that are not about security have no effect.  Raises ConfigError.
    """
    if path is None:
        return TcpNetwork()
    properties, _ = read_file(path)
    if _PROTOCOL not in properties and _OF_A_NODE in properties:
        return peer_network(load_config(path).config)
    try:
        return _of_client(properties)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def peer_network(config: NodeConfig) -> Network:
    """The network by which a node with this configuration reaches the others.  Raises ConfigError."""
    name = config.controller_listener_name
    sasl = config.sasl_of(name)
    return _secured(config.tls_of(name), None if sasl is None else sasl.login_of_node())


def _of_client(properties: Mapping[str, str]) -> Network:
    protocol = properties.get(_PROTOCOL, PLAINTEXT).strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(f"{_PROTOCOL}={protocol}; expected {' or '.join(SECURITY_PROTOCOLS)}")
    return _secured(
        tls_of_client(properties) if protocol in (SSL, SASL_SSL) else None,
        sasl_of_client(properties).login_of_client() if protocol in (SASL_PLAINTEXT, SASL_SSL) else None,
    )


def _secured(tls: TlsFields | None, login: Login | None) -> Network:
    network = TcpNetwork() if tls is None else _with_tls(tls)
    if login is None:
        return network
    from kraft_trio.security.sasl_network import SaslNetwork

    return SaslNetwork(network, login, _CLIENT_ID)


def _with_tls(tls: TlsFields) -> Network:
    from kraft_trio.security.tls_context import client_context  # imports cryptography, which takes 0.1 s
    from kraft_trio.security.tls_network import TlsNetwork

    context = client_context(tls)
    return TlsNetwork(TcpNetwork(), lambda: context, {})
