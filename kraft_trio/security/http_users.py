"""Basic authentication (RFC 7617) on an HTTP listener, against a file of SCRAM's users."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

import trio

from kraft_trio.config.secret import Secret
from kraft_trio.http.exchange import JSON, Endpoint, Exchange
from kraft_trio.logs import get_logger
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_users import ScramUsers

log = get_logger(__name__)

MAX_PASSWORD_CHARACTERS: Final = 1024
MAX_REMEMBERED: Final = 64
CHALLENGE: Final = b'www-authenticate: Basic realm="kraft", charset="UTF-8"\r\n'
PROBES: Final = ("/livez", "/readyz")
"""Anybody may ask for these without a query, and is told the status only."""


class HttpUsers:
    """Checks passwords.  A wrong one costs the hashing that SCRAM prescribes, on a thread, and one at a time."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError."""
        self._users = ScramUsers(path)
        self.files = self._users.files
        self._key = secrets.token_bytes(32)
        self._thread = trio.CapacityLimiter(1)
        self._known: dict[bytes, ScramCredential] = {}
        """By a keyed digest of name and password: the credential that they fit."""

    async def fits(self, name: str, password: Secret) -> bool:
        """Whether the user has that password with any mechanism.  It takes the same time for unknown users."""
        digest = hmac.digest(self._key, f"{len(name)} {name} {password.value}".encode(), "sha256")
        credentials = self._users.credentials(name)
        known = self._known.get(digest)
        if known is not None and known in credentials:
            return True
        found: ScramCredential | None = None
        for credential in credentials:
            made = await trio.to_thread.run_sync(_hashed, credential, password, limiter=self._thread)
            if made is not None and hmac.compare_digest(made.stored_key, credential.stored_key):
                found = credential
        if found is None or found.name != name:
            return False
        while len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[digest] = found
        return True


class AuthenticatedEndpoint:
    """Passes on the requests of clients with a verified certificate or a user's password; others get 401, late."""

    def __init__(
        self,
        inner: Endpoint,
        users: HttpUsers,
        delay_s: float,
        failed: Callable[[], object],
        error: Callable[[str], bytes],
    ) -> None:
        """`failed` is called for each wrong name or password, `error` makes a body."""
        self._inner = inner
        self._users = users
        self._delay_s = delay_s
        self._failed = failed
        self._error = error

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.has_client_certificate:
            await self._inner(exchange)
            return
        if exchange.path in PROBES and not exchange.query:
            await self._inner(cast(Exchange, _StatusOnly(exchange)))
            return
        given = exchange.header(b"authorization")
        login = None if given is None else _login(given)
        if login is not None and await self._users.fits(*login):
            await self._inner(exchange)
            return
        if given is not None:
            self._failed()
            log.warning("request denied", listener="http", peer=exchange.peer_host, reason="wrong user or password")
            await trio.sleep(self._delay_s)
        await exchange.respond(401, self._error("a user and a password are needed"), headers=CHALLENGE)


class _StatusOnly:
    """An exchange whose client is not told why a check has failed: it may name directories, nodes and addresses."""

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def respond(self, status: int, content: bytes, content_type: bytes = JSON, *, headers: bytes = b"") -> None:
        told = b"ok\n" if status == HTTPStatus.OK else b"failed\n"
        await self._inner.respond(status, told, content_type, headers=headers)


def _login(header: bytes) -> tuple[str, Secret] | None:
    """What an Authorization header says, or None if it is no Basic one."""
    scheme, _, encoded = header.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (name, Secret(password)) if colon and len(password) <= MAX_PASSWORD_CHARACTERS else None


def _hashed(credential: ScramCredential, password: Secret) -> ScramCredential | None:
    try:
        return ScramCredential.of_password(
            credential.name,
            credential.mechanism,
            password,
            salt=credential.salt,
            iterations=credential.iterations,
        )
    except ValueError:  # SCRAM allows no such password.
        return None
