"""The names of TLS 1.2 cipher suites: Kafka's files have the standard ones, OpenSSL has its own."""

from __future__ import annotations

from typing import Final

_OPENSSL_NAMES: Final = {
    f"TLS_{exchange}_WITH_{cipher}": f"{exchange.replace('_', '-')}-{openssl_cipher}"
    for exchange in ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA")
    for cipher, openssl_cipher in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
        ("AES_256_CBC_SHA384", "AES256-SHA384"),
    )
}


def openssl_name(name: str) -> str:
    """OpenSSL's name of a cipher suite.  Raises ValueError for a suite that is not among the safe ones."""
    if name in _OPENSSL_NAMES:
        return _OPENSSL_NAMES[name]
    if name in _OPENSSL_NAMES.values():
        return name
    raise ValueError(f"{name!r} is unknown or not safe; expected {', '.join(_OPENSSL_NAMES)}")
