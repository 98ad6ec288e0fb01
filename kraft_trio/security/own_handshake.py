"""Whether a node's certificate would be accepted by nodes with the same files, before it is used."""

from __future__ import annotations

import ssl
from typing import Final

import attrs

from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.errors import ProtocolError
from kraft_trio.security.principal import principal_of
from kraft_trio.security.tls_context import client_context, server_context
from kraft_trio.wire.tls_stream import reason_of

_STEPS: Final = 10
"""More than a handshake takes."""


@attrs.frozen
class OwnHandshake:
    """A handshake of a node with itself, in memory: the nodes of a quorum trust one another, so each is both sides."""

    host: str
    """Where other nodes reach this one."""
    names_principal: bool
    """Whether a node's certificate also says who it is."""

    def refusal(self, tls: TlsFields) -> str | None:
        """Why a node with these keys would refuse one that has them, too; None if it would not.  Raises ConfigError."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context(tls).wrap_bio(to_client, to_server, server_hostname=self.host)
        server = server_context(tls).wrap_bio(to_server, to_client, server_side=True)
        for _ in range(_STEPS):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLError, ssl.CertificateError) as error:
                    return reason_of(error)
        shown = server.getpeercert(binary_form=True)
        if shown is None or not self.names_principal:
            return None
        try:
            principal_of(shown, tls.principal_mapping_rules)
        except ProtocolError as error:
            return str(error)
        return None
