"""The file of SCRAM's credentials: one line of JSON for each user and mechanism."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from kraft_trio.config.sasl_fields import SCRAM_MECHANISMS
from kraft_trio.errors import ConfigError
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.system.durability import UNSUPPORTED, sync_all

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_BYTES: Final = ("salt", "stored_key", "server_key")


def read_scram_file(path: str) -> tuple[ScramCredential, ...]:
    """The credentials in the file.  Raises ConfigError, also if others than the file's owner may use it."""
    try:
        with open(path, encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & _OTHERS:
                raise ConfigError(f"{path}: mode {mode:04o} gives others access; 0600 is needed")
            lines = file.read().splitlines()
    except OSError as error:
        expected = "expected the users that `kraft storage add-scram` writes"
        raise ConfigError(f"{path}: {error.strerror}; {expected}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: it is no ASCII text") from error
    found: dict[tuple[str, str], ScramCredential] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            credential = _credential(line)
        except (KeyError, TypeError, ValueError, RecursionError):
            # The error may quote the line.
            raise ConfigError(f"{path}: line {number} is no credential of SCRAM") from None
        found[credential.mechanism, credential.name] = credential
    return tuple(found.values())


def add_to_scram_file(path: str, added: Iterable[ScramCredential]) -> None:
    """Write the file again with these credentials, which replace older ones.  Raises ConfigError."""
    if os.path.islink(path):
        raise ConfigError(f"{path}: a symbolic link, which is not written through")
    old = read_scram_file(path) if os.path.lexists(path) else ()
    credentials = {(credential.mechanism, credential.name): credential for credential in (*old, *added)}
    text = "".join(f"{_line(credential)}\n" for credential in credentials.values())
    written = ""
    try:
        # Such a file has the mode 0600 from the start.
        descriptor, written = tempfile.mkstemp(prefix=".scram-", dir=os.path.dirname(os.path.abspath(path)))
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            _give_to_owner(path, descriptor)
            sync_all(file.fileno())
        os.replace(written, path)
        _sync_directory(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        with suppress(OSError):
            os.unlink(written)
        raise ConfigError(f"{path}: {error.strerror}") from error


def _sync_directory(path: str) -> None:
    """Without this, a power failure may bring back the old file, and the old password."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_all(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def _give_to_owner(path: str, descriptor: int) -> None:
    """Root changes a password, but the node is another user: that of the old file, or else of the directory.

    Raises OSError.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        owner = os.stat(path if os.path.lexists(path) else os.path.dirname(os.path.abspath(path)))
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _credential(line: str) -> ScramCredential:
    fields = json.loads(line)
    if fields["mechanism"] not in SCRAM_MECHANISMS or not isinstance(fields["name"], str):
        raise ValueError
    if not isinstance(fields["iterations"], int) or set(fields) != {"name", "mechanism", "iterations", *_BYTES}:
        raise ValueError
    return ScramCredential(**{**fields, **{name: base64.b64decode(fields[name], validate=True) for name in _BYTES}})


def _line(credential: ScramCredential) -> str:
    return json.dumps(
        {
            "name": credential.name,
            "mechanism": credential.mechanism,
            **{name: base64.b64encode(getattr(credential, name)).decode() for name in _BYTES},
            "iterations": credential.iterations,
        }
    )
