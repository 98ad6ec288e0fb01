"""The node's certificates and those it trusts, as its files have them now."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import attrs

from kraft_trio.config import NodeConfig
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.config.values import HTTPS
from kraft_trio.errors import ConfigError
from kraft_trio.logs import get_logger
from kraft_trio.security.certificates import KEY_STORE, Certificate, certificates_of
from kraft_trio.security.file_identity import file_identity
from kraft_trio.security.tls_context import client_context, server_context
from kraft_trio.security.tls_network import TlsNetwork
from kraft_trio.security.watched_files import WatchedFiles
from kraft_trio.wire.network import Network

log = get_logger(__name__)


class Credentials:
    """One SSL context, made again when one of its files has changed.  Connections keep the context they began with."""

    def __init__(self, name: str, tls: TlsFields, make: Callable[[TlsFields], ssl.SSLContext]) -> None:
        """`name`: the listener, for messages.  Raises ConfigError."""
        self.name = name
        self.certificates: tuple[Certificate, ...] = ()
        """Those that the node shows and trusts."""
        self._tls = tls
        self._make = make
        self._context: ssl.SSLContext
        self.files = WatchedFiles(
            self._identity,
            self._take,
            taken=lambda: log.info("certificates taken over", listener=name, expires_at=str(self.expires_at)),
            refused=lambda reason: log.warning("changed certificates not used", listener=name, reason=reason),
        )

    def current(self) -> ssl.SSLContext:
        return self._context

    @property
    def expires_at(self) -> datetime | None:
        """When the node's own certificate expires; None if it has none."""
        return _own_expiry(self.certificates)

    def _take(self) -> None:
        context, certificates = self._make(self._tls), certificates_of(self._tls)
        new = _own_expiry(certificates)
        self._refuse_expired(new)
        if new is not None and new <= datetime.now(UTC):
            log.warning("the certificate has expired: others refuse it", listener=self.name, expired_at=str(new))
        self._context, self.certificates = context, certificates

    def _refuse_expired(self, new: datetime | None) -> None:
        """Raises ConfigError for an expired certificate in place of one that others still accept."""
        used, now = self.expires_at, datetime.now(UTC)
        if used is not None and new is not None and new <= now < used:
            raise ConfigError(
                f"ssl.keystore.location={self._tls.keystore_location}: the certificate expired at {new}; "
                f"expected one that expires after {now:%Y-%m-%d %H:%M:%S}, as that in use does, at {used}"
            )

    def _identity(self) -> tuple[object, ...]:
        return tuple(map(file_identity, (self._tls.keystore_location, self._tls.truststore_location)))


def _own_expiry(certificates: Sequence[Certificate]) -> datetime | None:
    own = next((one for one in certificates if one.store == KEY_STORE), None)
    return None if own is None else datetime.fromtimestamp(own.expires_s, UTC)


@attrs.frozen
class NodeCredentials:
    """Those of all listeners with TLS, and of the connections to the peers."""

    all: tuple[Credentials, ...]
    https: Credentials | None = None
    """Those of the HTTP listener, which are also in `all`."""

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
        https = None if config.https is None else Credentials(HTTPS, config.https, server_context)
        every = (*listening.values(), *(one for one in (connecting, https) if one is not None))
        credentials = cls(every, https)
        if not listening and connecting is None:
            return network, credentials
        secured = TlsNetwork(
            network,
            None if connecting is None else connecting.current,
            {endpoint: of_listener.current for endpoint, of_listener in listening.items()},
        )
        return secured, credentials
