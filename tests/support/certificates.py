"""Certificates of tests, and configuration keys with them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import trustme

HOST = "localhost"
PAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 2, 1, tzinfo=UTC)


@cache
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@cache
def foreign_authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def issue(ca: trustme.CA, name: str, host: str = HOST, *, is_expired: bool = False) -> trustme.LeafCert:
    """A certificate whose subject ends with `CN=name`."""
    begin, end = PAST if is_expired else (None, None)
    kind = trustme.KeyType.ECDSA
    return ca.issue_cert(host, common_name=name, not_before=begin, not_after=end, key_type=kind)


def write_store(path: Path, certificate: trustme.LeafCert) -> Path:
    """A key store in PEM, replaced in one step."""
    new = path.with_suffix(".new")
    new.write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
    return new.replace(path)


def write_trust(path: Path, ca: trustme.CA) -> Path:
    path.write_bytes(ca.cert_pem.bytes())
    return path


def tls_keys(directory: Path, name: str, certificate: trustme.LeafCert | None = None) -> dict[str, str]:
    """Keys of mutual TLS whose files are in the directory."""
    store = write_store(directory / f"{name}.pem", certificate or issue(authority(), name))
    return {
        "ssl.keystore.location": str(store),
        "ssl.truststore.location": str(write_trust(directory / "authority.pem", authority())),
        "ssl.client.auth": "required",
    }


def write_client_file(path: Path, keys: dict[str, str]) -> str:
    """The file for `--command-config`."""
    path.write_text("".join(f"{key}={value}\n" for key, value in {"security.protocol": "SSL", **keys}.items()))
    return str(path)


def client_of(certificate: trustme.LeafCert | None, trusted: trustme.CA | None = None) -> ssl.SSLContext:
    """The context of a client that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    (trusted or authority()).configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context
