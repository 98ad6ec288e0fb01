"""What a server knows of a user of SCRAM (RFC 5802): enough to check a password, not to log in with it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

import attrs

from kraft_trio.config.secret import Secret

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Kafka's bounds.  A client that obeyed any server could be kept busy for as long as the server likes."""
MIN_SALT_BYTES: Final = 12
_SALT_BYTES: Final = 24


@attrs.frozen
class ScramCredential:
    """One user of one mechanism."""

    name: str
    mechanism: str
    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int = MIN_ITERATIONS

    def __attrs_post_init__(self) -> None:
        """Raises ValueError."""
        if not (self.name and self.name.isascii() and self.name.isprintable()):
            raise ValueError(f"the name {self.name!r} has other characters than printable ones of ASCII, or none")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"{self.iterations} iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} expected")
        if len(self.salt) < MIN_SALT_BYTES:
            raise ValueError(f"the salt has {len(self.salt)} bytes: at least {MIN_SALT_BYTES} expected")
        if {len(self.stored_key), len(self.server_key)} != {hash_bytes(self.mechanism)}:
            raise ValueError(f"a key of {self.mechanism} has {hash_bytes(self.mechanism)} bytes")

    @classmethod
    def of_password(
        cls, name: str, mechanism: str, password: Secret, *, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """Raises ValueError."""
        from scramp import ScramException, ScramMechanism

        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        if not password:
            raise ValueError("the password is empty")
        try:
            made = ScramMechanism(mechanism).make_auth_info(password.value, iterations, salt)
        except ScramException as error:
            raise ValueError(str(error)) from None
        _, stored_key, server_key, _ = made
        return cls(name, mechanism, salt, stored_key, server_key, iterations)

    @classmethod
    def of_salted_password(
        cls, name: str, mechanism: str, salted: bytes, *, salt: bytes, iterations: int
    ) -> ScramCredential:
        """The same from a password that was salted elsewhere.  Raises ValueError."""
        name_of_hash = _hash_name(mechanism)
        client_key = hmac.digest(salted, b"Client Key", name_of_hash)
        stored_key = hashlib.new(name_of_hash, client_key).digest()
        return cls(name, mechanism, salt, stored_key, hmac.digest(salted, b"Server Key", name_of_hash), iterations)


def hash_bytes(mechanism: str) -> int:
    """The size of a key of the mechanism."""
    return hashlib.new(_hash_name(mechanism)).digest_size


def _hash_name(mechanism: str) -> str:
    return mechanism.removeprefix("SCRAM-").replace("-", "").lower()
