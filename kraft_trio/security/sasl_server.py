"""The authentication of one accepted connection, as requests and responses (KIP-43, KIP-152, KIP-368).

A client may ask for versions, then it names a mechanism, then tokens go to and fro.  Anything else ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.security.sasl_mechanisms import AuthenticationError, ServerMechanism
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from kraft_trio.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeResponse
from kraft_trio.wire.codec import RequestHeader, UnsupportedRequestError, decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode


class _State(Enum):
    """What may come next."""

    ANY_VERSIONS_OR_HANDSHAKE = "ApiVersions or SaslHandshake"
    VERSIONS_OR_HANDSHAKE = "ApiVersions of a served version, or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    TOKEN = "SaslAuthenticate"


_EXPECTED: Final = {
    _State.ANY_VERSIONS_OR_HANDSHAKE: (API_VERSIONS.key, SASL_HANDSHAKE.key),
    _State.VERSIONS_OR_HANDSHAKE: (API_VERSIONS.key, SASL_HANDSHAKE.key),
    _State.HANDSHAKE: (SASL_HANDSHAKE.key,),
    _State.TOKEN: (SASL_AUTHENTICATE.key,),
}
"""The keys of the requests that may come.  No other request is even decoded."""


class ServesVersions(Protocol):
    """The part of RequestRouter that is needed here."""

    def api_versions(self, listener_name: str) -> ApiVersionsResponse: ...

    def too_new(self, error: UnsupportedVersionError) -> tuple[RequestHeader, ApiVersionsResponse]: ...


@attrs.frozen
class Step:
    """What a request leads to: a response, and then perhaps the end of the exchange."""

    response: bytes
    user: str | None = None
    """Who has authenticated with it."""
    failure: str | None = None
    """Why the connection must be closed after the response, which is then sent late."""


class SaslExchange:
    """Owned by the connection, which passes on what it receives until a step has a user or a failure."""

    def __init__(
        self,
        listener_name: str,
        mechanisms: Mapping[str, Callable[[], ServerMechanism]],
        versions: ServesVersions,
        session_ms: int = 0,
        only_user: str | None = None,
    ) -> None:
        """`session_ms`: how soon the client must authenticate again, or 0.  `only_user`: the only one who may."""
        self._session_ms = session_ms
        self._only_user = only_user
        self._listener_name = listener_name
        self._mechanisms = mechanisms
        self._versions = versions
        self._state = _State.ANY_VERSIONS_OR_HANDSHAKE
        self._mechanism_name = ""
        self._mechanism: ServerMechanism | None = None

    def receive(self, frame: bytes) -> Step:
        """Take the next request."""
        if int.from_bytes(frame[:2], "big") not in _EXPECTED[self._state]:
            return Step(b"", failure=f"another request than {self._state.value} before authentication")
        try:
            header, request = decode_request(frame)
        except UnsupportedRequestError as error:
            return self._refuse_version(error)
        except ProtocolError as error:
            return Step(b"", failure=str(error))
        if isinstance(request, ApiVersionsRequest):
            self._state = _State.HANDSHAKE
            return _step(header, self._versions.api_versions(self._listener_name))
        if self._state is _State.TOKEN:
            return self._token(header, request.auth_bytes)
        return self._handshake(header, request.mechanism)

    def _refuse_version(self, error: UnsupportedRequestError) -> Step:
        """A client may ask once for a version of ApiVersions that is too new, and is told what is served (KIP-511)."""
        if error.api_key != API_VERSIONS.key or self._state is not _State.ANY_VERSIONS_OR_HANDSHAKE:
            return Step(b"", failure=str(error))
        self._state = _State.VERSIONS_OR_HANDSHAKE
        return _step(*self._versions.too_new(error))

    def _handshake(self, header: RequestHeader, name: str) -> Step:
        enabled = tuple(self._mechanisms)
        make = self._mechanisms.get(name)
        if make is None:
            refusal = SaslHandshakeResponse(ErrorCode.unsupported_sasl_mechanism, enabled)
            return _step(header, refusal, failure="the client wants a mechanism that is not enabled")
        self._state, self._mechanism_name, self._mechanism = _State.TOKEN, name, make()
        return _step(header, SaslHandshakeResponse(mechanisms=enabled))

    def _token(self, header: RequestHeader, token: bytes) -> Step:
        assert self._mechanism is not None, "a token before the mechanism is known"
        try:
            answer = self._mechanism.evaluate(token)
            user = self._mechanism.user
            if None not in (user, self._only_user) and user != self._only_user:
                raise AuthenticationError("the user must not change on a connection")
        except AuthenticationError as error:
            # The same text for every reason: it must not tell which users there are.
            told = f"authentication with {self._mechanism_name} failed"
            refusal = SaslAuthenticateResponse(ErrorCode.sasl_authentication_failed, told)
            return _step(header, refusal, failure=f"{self._mechanism_name}: {error}")
        lifetime_ms = 0 if user is None else self._session_ms
        return _step(header, SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms), user=user)


def _step(header: RequestHeader, response: object, *, user: str | None = None, failure: str | None = None) -> Step:
    return Step(encode_response(header.api, header.version, header.correlation_id, response), user, failure)
