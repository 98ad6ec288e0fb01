"""When the certificates expire that a node shows and trusts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
from cryptography import x509

from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.errors import ConfigError
from kraft_trio.security.principal import distinguished_name
from kraft_trio.security.tls_context import key_store, trusted_pem

KEY_STORE: Final = "key-store"
TRUST_STORE: Final = "trust-store"
_LONGEST_SUBJECT: Final = 200
_MOST: Final = 100
"""Certificates of one store that are told."""
_UNREADABLE: Final = (ValueError, TypeError, x509.InvalidVersion)


@attrs.frozen
class Certificate:
    """What identifies a certificate for an operator."""

    store: str
    """Whether this node shows it (`key-store`) or trusts it (`trust-store`)."""
    subject: str
    """As RFC 2253 writes it."""
    serial: str
    """Hexadecimal.  It tells an authority's old certificate from its new one."""
    expires_s: int
    """Seconds since 1970."""
    issuer: str = ""
    """The subject of the authority that signed it."""


def certificates_of(tls: TlsFields) -> tuple[Certificate, ...]:
    """The chain that the node shows, and the authorities that its trust store names.

    Nothing of the system's authorities, which count without a trust store.  Raises ConfigError.
    """
    store, trusted = key_store(tls), trusted_pem(tls)
    try:
        shown = () if store is None else _read(KEY_STORE, store.pem)
    except _UNREADABLE as error:
        raise ConfigError(f"ssl.keystore.location=...: no certificate that can be read: {error}") from error
    try:
        return (*shown, *(() if trusted is None else _read(TRUST_STORE, trusted.encode())))
    except _UNREADABLE:  # OpenSSL has read it, and is less strict.
        return shown


def first_expiry(certificates: Iterable[Certificate]) -> int | None:
    """The first expiry that ends the connections of a listener, in seconds since 1970; None without certificates.

    Connections need all certificates that the node shows, and the authority that signed them, as it is likely that of
    the other nodes, too.  An old authority may stay in the trust store and expire, and a new one may be there already.
    """
    shown: list[Certificate] = []
    trusted: list[Certificate] = []
    for one in certificates:
        (shown if one.store == KEY_STORE else trusted).append(one)
    signers = {one.issuer for one in shown}
    signing = [one.expires_s for one in trusted if one.subject in signers]
    needed = signing or [one.expires_s for one in trusted]
    return min([*(one.expires_s for one in shown), *([max(needed)] if needed else [])], default=None)


def _read(store: str, pem: bytes) -> tuple[Certificate, ...]:
    return tuple(
        Certificate(
            store,
            distinguished_name(one.subject)[:_LONGEST_SUBJECT],
            f"{one.serial_number:x}",
            int(one.not_valid_after_utc.timestamp()),
            distinguished_name(one.issuer)[:_LONGEST_SUBJECT],
        )
        for one in x509.load_pem_x509_certificates(pem)[:_MOST]
    )
