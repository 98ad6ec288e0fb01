"""Both sides of the mechanisms PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), as tokens to send and to receive."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kraft_trio.config.sasl_fields import PLAIN, Login
from kraft_trio.config.secret import Secret
from kraft_trio.security.scram_credential import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential

MAX_SCRAM_TOKEN_BYTES: Final = 1024
"""Limit for what a stranger sends to a server of SCRAM.  Preparing a name (RFC 4013) takes time for each character."""
_ITERATIONS: Final = re.compile(r"[^,]*,[^,]*,i=(\d{1,9})(?:,|$)")


class AuthenticationError(Exception):
    """A token was refused.  The text is for the log of this side; it has no password and no word of the peer."""


class ServerMechanism(Protocol):
    """The server's side of one exchange."""

    @property
    def user(self) -> str | None:
        """Who has authenticated; None until then."""

    def evaluate(self, token: bytes) -> bytes:
        """Answer a token of the client.  Raises AuthenticationError; nothing more may be asked then."""


class ClientMechanism(Protocol):
    """The client's side of one exchange."""

    @property
    def is_complete(self) -> bool:
        """Whether the exchange is over, and the server is who it claims to be as far as the mechanism can tell."""

    def evaluate(self, token: bytes) -> bytes:
        """Answer a token of the server; the first one is empty.  Raises AuthenticationError."""


class PlainServer:
    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            raise AuthenticationError("the token is not of PLAIN") from None
        known = self._users.get(user)
        # Digests have one length and take one time, however long a password is and whether there is one.
        key = secrets.token_bytes(32)
        wanted = hmac.digest(key, b"" if known is None else known.value.encode(), "sha256")
        fits = hmac.compare_digest(hmac.digest(key, password.encode(), "sha256"), wanted)
        if known is None or not fits:
            raise AuthenticationError("unknown user or wrong password")
        if authorization_id not in ("", user):
            raise AuthenticationError("a user may act only as itself")
        self.user = user
        return b""


class PlainClient:
    def __init__(self, login: Login) -> None:
        self._login = login
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        """One token is sent.  The server's answer to it is empty."""
        if token:
            raise AuthenticationError("the server answers PLAIN with a token")
        self.is_complete = True
        return f"\0{self._login.username}\0{self._login.password.value}".encode()


class ScramServer:
    def __init__(
        self, mechanism: str, credential: Callable[[str, str], ScramCredential], nonce: str | None = None
    ) -> None:
        """`credential` returns that of a mechanism and a user, also of an unknown one.

        `nonce` is random unless a test gives one.
        """
        from scramp import ScramMechanism

        self._mechanism = mechanism
        self._credential = credential
        self._claimed = ""
        self._server = ScramMechanism(mechanism).make_server(self._of_user, s_nonce=nonce)
        self._has_answered = False
        self.user: str | None = None

    def _of_user(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._claimed = name
        found = self._credential(self._mechanism, name)
        return found.salt, found.stored_key, found.server_key, found.iterations

    def evaluate(self, token: bytes) -> bytes:
        from scramp import ScramException

        if len(token) > MAX_SCRAM_TOKEN_BYTES:
            raise AuthenticationError(f"a token of {len(token)} bytes: at most {MAX_SCRAM_TOKEN_BYTES} are allowed")
        try:
            text = token.decode("ascii")  # No user has another name, and one letter may become 18 when it is prepared.
            if not self._has_answered:
                self._server.set_client_first(text)
                self._has_answered = True
                return str(self._server.get_server_first()).encode()
            self._allow_double_nonce(token)
            self._server.set_client_final(text)
            final = str(self._server.get_server_final()).encode()
        except UnicodeDecodeError:
            raise AuthenticationError(f"the token is not of {self._mechanism}") from None
        except ScramException as error:
            raise AuthenticationError(_reason(error)) from None
        self.user = self._claimed
        return final

    def _allow_double_nonce(self, client_final: bytes) -> None:
        """Let the client put its own nonce once more before that of both sides.

        librdkafka before 2.2 does so, and Kafka allows it.  The proof covers the server's part either way.
        """
        nonce = self._server.nonce
        of_client = str(nonce)[: len(nonce) - len(self._server.s_nonce)]
        double = type(nonce)(of_client + str(nonce))
        if f",r={double},".encode() in client_final:
            self._server.nonce = double


class ScramClient:
    def __init__(self, login: Login, nonce: str | None = None) -> None:
        """`nonce` is random unless a test gives one.  Raises AuthenticationError for text that SCRAM does not allow."""
        from scramp import ScramClient as Client
        from scramp import ScramException

        try:
            self._client = Client([login.mechanism], login.username, login.password.value, c_nonce=nonce)
        except ScramException as error:
            raise AuthenticationError(_reason(error)) from None
        self._steps = 0
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        from scramp import ScramException

        self._steps += 1
        try:
            match self._steps:
                case 1:
                    return str(self._client.get_client_first()).encode()
                case 2:
                    first = token.decode()
                    _check_iterations(first)
                    self._client.set_server_first(first)
                    return str(self._client.get_client_final()).encode()
                case _:
                    self._client.set_server_final(token.decode())
        except UnicodeDecodeError:
            raise AuthenticationError("the server's token is not of SCRAM") from None
        except ScramException as error:
            raise AuthenticationError(_reason(error)) from None
        self.is_complete = True
        return b""


def _check_iterations(server_first: str) -> None:
    match = _ITERATIONS.match(server_first)
    if match is not None and not MIN_ITERATIONS <= int(match[1]) <= MAX_ITERATIONS:
        raise AuthenticationError(f"{match[1]} iterations wanted: {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed")


def _reason(error: Exception) -> str:
    return "unknown user or wrong password" if "client keys" in str(error) else f"SCRAM: {error}"


def client_mechanism(login: Login) -> ClientMechanism:
    """The client's side of a new exchange.  Raises AuthenticationError."""
    return PlainClient(login) if login.mechanism == PLAIN else ScramClient(login)
