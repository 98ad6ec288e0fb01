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
from kraft_trio.security.own_handshake import OwnHandshake
from kraft_trio.security.tls_context import client_context, server_context
from kraft_trio.security.tls_network import TlsNetwork
from kraft_trio.security.watched_files import WatchedFiles
from kraft_trio.wire.network import Network

log = get_logger(__name__)


class Credentials:
    """One SSL context, made again when one of its files has changed.  Connections keep the context they began with."""

    def __init__(
        self, name: str, tls: TlsFields, make: Callable[[TlsFields], ssl.SSLContext], own: OwnHandshake | None = None
    ) -> None:
        """`name`: the listener, for messages.  `own` tries whether other nodes accept the files, if any use them.

        Raises ConfigError.
        """
        self.name = name
        self.certificates: tuple[Certificate, ...] = ()
        """Those that the node shows and trusts."""
        self._tls = tls
        self._make = make
        self._own = own
        self._is_accepted = False
        """Whether other nodes accepted the certificate when it was loaded, as far as this one can tell."""
        self._context: ssl.SSLContext
        self.files = WatchedFiles(
            self._identity,
            self._take,
            taken=lambda: log.info("certificates reloaded", listener=name, expires_at=str(self.expires_at)),
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
        refusal = None if self._own is None else self._own.refusal(self._tls)
        if new is not None and new <= datetime.now(UTC):
            log.warning("the certificate has expired: others refuse it", listener=self.name, expired_at=str(new))
        elif refusal is not None:
            self._refuse_refused(refusal)
            log.warning("the other nodes may refuse the certificate", listener=self.name, reason=refusal)
        self._is_accepted = refusal is None
        self._context, self.certificates = context, certificates

    def _refuse_expired(self, new: datetime | None) -> None:
        """Raises ConfigError for an expired certificate in place of one that others still accept."""
        used, now = self.expires_at, datetime.now(UTC)
        if used is not None and new is not None and new <= now < used:
            raise ConfigError(
                f"ssl.keystore.location={self._tls.keystore_location}: the certificate expired at {new}; "
                f"expected one that expires after {now:%Y-%m-%d %H:%M:%S}, as that in use does, at {used}"
            )

    def _refuse_refused(self, refusal: str) -> None:
        """Raises ConfigError for files with which nodes refuse each other, in place of some that they still accept."""
        used = self.expires_at
        if self._own is not None and self._is_accepted and used is not None and datetime.now(UTC) < used:
            raise ConfigError(
                f"ssl.keystore.location={self._tls.keystore_location}: nodes with such files would refuse each other: "
                f"{refusal}; expected a certificate for {self._own.host} from an authority in "
                f"ssl.truststore.location={self._tls.truststore_location}"
            )

    def _identity(self) -> tuple[object, ...]:
        return tuple(map(file_identity, (self._tls.keystore_location, self._tls.truststore_location)))


def _own_expiry(certificates: Sequence[Certificate]) -> datetime | None:
    own = next((one for one in certificates if one.store == KEY_STORE), None)
    return None if own is None else datetime.fromtimestamp(own.expires_s, UTC)


def _files(tls: TlsFields) -> tuple[str, str]:
    return tls.keystore_location, tls.truststore_location


@attrs.frozen
class NodeCredentials:
    """The credentials of all listeners with TLS, and of the connections to the peers."""

    all: tuple[Credentials, ...]
    connecting: Credentials | None = None
    """Those of the connections to the peers, which are also in `all`."""
    https: Credentials | None = None
    """Those of the HTTP listener, which are also in `all`."""

    @classmethod
    def of(cls, network: Network, config: NodeConfig) -> tuple[Network, NodeCredentials]:
        """The network as the configuration secures it, and the credentials that it uses.  Raises ConfigError."""
        name = config.controller_listener_name
        peers = config.tls_of(name)

        def own(listener_name: str, tls: TlsFields) -> OwnHandshake | None:
            """For controller listeners, and for others with the same files."""
            if listener_name not in config.controller_listener_names:
                if peers is None or _files(tls) != _files(peers):
                    return None
                listener_name = name
            endpoint = config.advertised_endpoint(listener_name)
            return None if endpoint is None else OwnHandshake(endpoint.host, config.sasl_of(listener_name) is None)

        listening = {
            listener.endpoint: Credentials(listener.name, tls, server_context, own(listener.name, tls))
            for listener in config.listeners
            if (tls := config.tls_of(listener.name)) is not None
        }
        connecting = None if peers is None else Credentials(name, peers, client_context, own(name, peers))
        https = None
        if config.https is not None:
            https = Credentials(HTTPS, config.https, server_context, own(HTTPS, config.https))
        every = (*listening.values(), *(one for one in (connecting, https) if one is not None))
        credentials = cls(every, connecting, https)
        if not listening and connecting is None:
            return network, credentials
        secured = TlsNetwork(
            network,
            None if connecting is None else connecting.current,
            {endpoint: of_listener.current for endpoint, of_listener in listening.items()},
        )
        return secured, credentials
