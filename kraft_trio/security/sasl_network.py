"""A network whose connections authenticate with SASL before they are used."""

from __future__ import annotations

import math
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
_USED_PART: Final = 0.85
"""A session is renewed after this part of its lifetime, as Kafka's clients do."""


class LoginRefusedError(NetworkError):
    """The node that was asked runs, but does not let this client in with its mechanism, user and password."""


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
            lifetime_ms = await _log_in(connection, self.login)
            if lifetime_ms:
                stream.session = SaslSession(self.login, _due_s(lifetime_ms))
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, ProtocolError | UnsupportedVersionError | AuthenticationError):
                kind = LoginRefusedError if isinstance(error, AuthenticationError) else NetworkError
                raise kind(f"SASL: {error}") from error
            raise
        return stream

    async def addresses(self, host: str) -> tuple[str, ...]:
        return await self.inner.addresses(host)

    async def listen(self, endpoint: Endpoint) -> Listener:
        return await self.inner.listen(endpoint)


@attrs.define
class SaslSession:
    """Implements Session."""

    login: Login
    due_s: float

    async def renew(self, connection: Connection) -> None:
        try:
            lifetime_ms = await _log_in(connection, self.login)
        except (ProtocolError, UnsupportedVersionError, AuthenticationError) as error:
            raise NetworkError(f"SASL: {error}") from error
        self.due_s = _due_s(lifetime_ms) if lifetime_ms else math.inf


def _due_s(lifetime_ms: int) -> float:
    return trio.current_time() + _USED_PART * lifetime_ms / 1000


async def _log_in(connection: Connection, login: Login) -> int:
    """Exchange tokens of that one mechanism, whichever others the server offers.

    Returns after how many milliseconds the server wants it again; 0: never.
    """
    handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(login.mechanism))
    if handshake.error != ErrorCode.none:
        offered = ", ".join(handshake.mechanisms)[:_FOREIGN_TEXT]
        raise AuthenticationError(f"{login.mechanism}: {handshake.error.name}; the server has {offered!r}")
    mechanism = client_mechanism(login)
    received, lifetime_ms = b"", 0
    for _ in range(_MAX_TOKENS):
        token = mechanism.evaluate(received)
        if mechanism.is_complete and not token:
            return lifetime_ms
        response = await connection.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(token))
        if response.error != ErrorCode.none:
            said = (response.error_message or "")[:_FOREIGN_TEXT]
            raise AuthenticationError(f"{response.error.name}: the server says {said!r}")
        received, lifetime_ms = response.auth_bytes, max(0, response.session_lifetime_ms)
        if mechanism.is_complete and not received:
            return lifetime_ms
    raise AuthenticationError(f"{login.mechanism}: the server does not come to an end")
