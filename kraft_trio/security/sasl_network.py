"""A network whose connections authenticate with SASL before they are used."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from kraft_trio.config.sasl_fields import Login
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.sasl_mechanisms import AuthenticationError, client_mechanism
from kraft_trio.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import ImmediateStream, Listener, Network

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_FOREIGN_TEXT: Final = 200
"""So many characters of what a server says get into an error."""
_MAX_TOKENS: Final = 3


@attrs.frozen
class SaslNetwork:
    """Implements Network over another one, with TLS or without."""

    inner: Network
    login: Login
    client_id: str

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        stream = await self.inner.connect(endpoint)
        try:
            connection = await Connection.negotiated(stream, self.client_id, _MAX_RESPONSE_BYTES)
            await _log_in(connection, self.login)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, ProtocolError | UnsupportedVersionError | AuthenticationError):
                raise NetworkError(f"{endpoint}: SASL: {error}") from error
            raise
        return stream

    async def addresses(self, host: str) -> tuple[str, ...]:
        return await self.inner.addresses(host)

    async def listen(self, endpoint: Endpoint) -> Listener:
        return await self.inner.listen(endpoint)


async def _log_in(connection: Connection, login: Login) -> None:
    """Exchange tokens of that one mechanism, whichever others the server offers."""
    handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(login.mechanism))
    if handshake.error != ErrorCode.none:
        offered = ", ".join(handshake.mechanisms)[:_FOREIGN_TEXT]
        raise AuthenticationError(f"{login.mechanism}: {handshake.error.name}; the server has {offered!r}")
    mechanism = client_mechanism(login)
    received = b""
    for _ in range(_MAX_TOKENS):
        token = mechanism.evaluate(received)
        if mechanism.is_complete and not token:
            return
        response = await connection.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(token))
        if response.error != ErrorCode.none:
            said = (response.error_message or "")[:_FOREIGN_TEXT]
            raise AuthenticationError(f"{response.error.name}: the server says {said!r}")
        received = response.auth_bytes
        if mechanism.is_complete and not received:
            return
    raise AuthenticationError(f"{login.mechanism}: the server does not come to an end")
