"""The users of SCRAM as the file has them now."""

from __future__ import annotations

import hmac
import secrets

import attrs

from kraft_trio.config.sasl_fields import SCRAM_SHA_512
from kraft_trio.logs import get_logger
from kraft_trio.security.file_identity import file_identity
from kraft_trio.security.scram_credential import MIN_ITERATIONS, ScramCredential, hash_bytes
from kraft_trio.security.scram_file import read_scram_file
from kraft_trio.security.watched_files import WatchedFiles

log = get_logger(__name__)


class ScramUsers:
    """Reads the file again when it has changed.  While it cannot be read, the old users stay."""

    def __init__(self, path: str) -> None:
        """Raises ConfigError."""
        self._path = path
        self._secret = secrets.token_bytes(32)
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._of_user: dict[str, tuple[ScramCredential, ...]] = {}
        self.files = WatchedFiles(
            lambda: file_identity(path),
            self._take,
            taken=lambda: log.info("SCRAM users reloaded", users=len({name for _, name in self._credentials})),
            refused=lambda reason: log.warning("changed SCRAM users not used", reason=reason),
        )

    def credential(self, mechanism: str, name: str) -> ScramCredential:
        """What is known of the user.  For an unknown one, something that looks the same and fits no password.

        It is the same at each call, and with the same file on another node or after a restart.  So nobody learns from
        salt and iterations whether the user exists.
        """
        self.files.look()
        decoy = self._decoy(mechanism, name)  # Also for a known user: the answer takes the same time.
        return self._credentials.get((mechanism, name), decoy)

    def credentials(self, name: str) -> tuple[ScramCredential, ...]:
        """The credentials of the user, for any mechanism.  An unknown user gets some that fit no password.

        Checking these takes as long as for a known user.
        """
        self.files.look()
        if name in self._of_user:
            return self._of_user[name]
        if not self._of_user:
            return (self._decoy(SCRAM_SHA_512, name),)
        seed = hmac.digest(self._secret, name.encode(), "sha512")
        like = self._of_user[list(self._of_user)[int.from_bytes(seed[-4:], "big") % len(self._of_user)]]
        return tuple(attrs.evolve(one, name="-", stored_key=secrets.token_bytes(len(one.stored_key))) for one in like)

    def _decoy(self, mechanism: str, name: str) -> ScramCredential:
        seed = hmac.digest(self._secret, f"{mechanism} {name}".encode(), "sha512")
        of_mechanism = [credential for key, credential in self._credentials.items() if key[0] == mechanism]
        salt_bytes, iterations = 24, MIN_ITERATIONS
        if of_mechanism:
            like = of_mechanism[int.from_bytes(seed[-4:], "big") % len(of_mechanism)]
            salt_bytes, iterations = len(like.salt), like.iterations
        size = hash_bytes(mechanism)
        salt = (seed[:60] * (salt_bytes // 60 + 1))[:salt_bytes]
        return ScramCredential("-", mechanism, salt, secrets.token_bytes(size), secrets.token_bytes(size), iterations)

    def _take(self) -> None:
        credentials = read_scram_file(self._path)
        self._credentials = {(credential.mechanism, credential.name): credential for credential in credentials}
        self._of_user = {}
        for credential in credentials:
            self._of_user[credential.name] = (*self._of_user.get(credential.name, ()), credential)
        if credentials:
            self._secret = credentials[0].server_key
