"""The node's certificates and those it trusts, as its files have them now."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import datetime

import attrs

from kraft_trio.config import NodeConfig
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.errors import ConfigError
from kraft_trio.logs import get_logger
from kraft_trio.security.file_identity import file_identity
from kraft_trio.security.tls_context import client_context, key_store, server_context
from kraft_trio.security.tls_network import TlsNetwork
from kraft_trio.wire.network import Network

log = get_logger(__name__)


class Credentials:
    """One SSL context, made again when one of its files has changed.  Connections keep the context they began with."""

    def __init__(self, name: str, tls: TlsFields, make: Callable[[TlsFields], ssl.SSLContext]) -> None:
        """`name`: the listener, for messages.  Raises ConfigError."""
        self.name = name
        self._tls = tls
        self._make = make
        self._seen = self._files()
        self._context = make(tls)
        store = key_store(tls)
        self.expires_at: datetime | None = None if store is None else store.expires_at
        """When the node's own certificate expires; None if it has none."""

    def current(self) -> ssl.SSLContext:
        return self._context

    def look(self) -> None:
        """Take over changed files.  While they cannot be used, the old ones stay in force."""
        files = self._files()
        if files == self._seen:
            return
        self._seen = files
        try:
            context, store = self._make(self._tls), key_store(self._tls)
            expires_at = None if store is None else store.expires_at
        except ConfigError as error:
            log.warning("changed certificates not used", listener=self.name, reason=str(error))
            return
        self._context, self.expires_at = context, expires_at
        log.info("certificates taken over", listener=self.name, expires_at=str(self.expires_at))

    def _files(self) -> tuple[object, ...]:
        return tuple(map(file_identity, (self._tls.keystore_location, self._tls.truststore_location)))


@attrs.frozen
class NodeCredentials:
    """Those of all listeners with TLS, and of the connections to the peers."""

    all: tuple[Credentials, ...]

    @classmethod
    def of(cls, network: Network, config: NodeConfig) -> tuple[Network, NodeCredentials]:
        """The network as the configuration secures it, and the credentials that it uses.  Raises ConfigError."""
        listening = {
            listener.endpoint: Credentials(listener.name, tls, server_context)
            for listener in config.listeners
            if (tls := config.tls_of(listener.name)) is not None
        }
        peers = config.tls_of(config.controller_listener_name)
        connecting = None if peers is None else Credentials(config.controller_listener_name, peers, client_context)
        credentials = cls((*listening.values(), *(() if connecting is None else (connecting,))))
        if not credentials.all:
            return network, credentials
        secured = TlsNetwork(
            network,
            None if connecting is None else connecting.current,
            {endpoint: of_listener.current for endpoint, of_listener in listening.items()},
        )
        return secured, credentials
