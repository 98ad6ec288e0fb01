"""OpenSSL's contexts from the configuration keys of TLS."""

from __future__ import annotations

import ssl
from typing import Final

import attrs
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from kraft_trio.config.tls_fields import TLS_KEY_OF_FIELD, TlsFields
from kraft_trio.errors import ConfigError
from kraft_trio.security.cipher_suites import openssl_name
from kraft_trio.system.memory_files import as_file

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_2_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""With forward secrecy and authenticated encryption; RFC 9325, section 4.2.  TLS 1.3 has no others."""
_IN_A_STORE: Final = (("private key", b"PRIVATE KEY-----"), ("certificate", b"-----BEGIN CERTIFICATE-----"))
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@attrs.frozen
class KeyStore:
    """A private key and its certificate chain, in PEM."""

    pem: bytes = attrs.field(repr=False)
    password: str = attrs.field(repr=False)


def server_context(tls: TlsFields) -> ssl.SSLContext:
    """The context of a listener.  Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    store = key_store(tls)
    if store is None:
        raise _refused("keystore_location", "", "a TLS listener needs a private key and a certificate")
    _set_up(context, tls, store)
    context.verify_mode = _VERIFY[tls.client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        if not (tls.truststore_certificates or tls.truststore_location):
            # The system's authorities also vouch for strangers.
            raise _refused("truststore_location", "", f"ssl.client.auth={tls.client_auth} needs authorities to trust")
        _trust(context, tls, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(tls: TlsFields) -> ssl.SSLContext:
    """The context of connections to others.  Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.endpoint_identification_algorithm == "https"
    _set_up(context, tls, key_store(tls))
    _trust(context, tls, ssl.Purpose.SERVER_AUTH)
    return context


def key_store(tls: TlsFields) -> KeyStore | None:
    """The configured key store, or None.  Raises ConfigError if it cannot be read."""
    if tls.keystore_key or tls.keystore_certificate_chain:
        if not (tls.keystore_key and tls.keystore_certificate_chain):
            field = "keystore_key" if not tls.keystore_key else "keystore_certificate_chain"
            raise _refused(field, "", "a private key and its certificate chain are needed together")
        pem = f"{tls.keystore_key.value}\n{tls.keystore_certificate_chain}\n".encode()
        return KeyStore(pem, tls.key_password.value)
    if not tls.keystore_location:
        return None
    content = _read("keystore_location", tls.keystore_location)
    if tls.keystore_type == "PEM":
        return KeyStore(content, tls.key_password.value)
    try:
        store = pkcs12.load_pkcs12(content, tls.keystore_password.value.encode() or None)
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = f"no PKCS12 store, or ssl.keystore.password does not fit it: {error}"
        raise _refused("keystore_location", tls.keystore_location, reason) from error
    if store.key is None or store.cert is None:
        raise _refused("keystore_location", tls.keystore_location, "no private key with a certificate in it")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert, *store.additional_certs]
    return KeyStore(key + b"".join(entry.certificate.public_bytes(Encoding.PEM) for entry in chain), "")


def _set_up(context: ssl.SSLContext, tls: TlsFields, store: KeyStore | None) -> None:
    if not tls.enabled_protocols:
        raise _refused("enabled_protocols", "", "at least one version is needed")
    versions = [_VERSIONS[name] for name in tls.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_ciphers(_TLS_1_2_CIPHERS)
    if tls.cipher_suites:
        try:
            context.set_ciphers(":".join(openssl_name(name) for name in tls.cipher_suites))
        except (ssl.SSLError, ValueError) as error:
            raise _refused("cipher_suites", ",".join(tls.cipher_suites), str(error)) from error
    if store is not None:
        try:
            with as_file(store.pem) as path:
                # Without a password OpenSSL would ask the terminal.
                context.load_cert_chain(path, password=store.password)
        except (ssl.SSLError, OSError) as error:
            is_inline = bool(tls.keystore_certificate_chain)
            field, value = ("certificate_chain", "...") if is_inline else ("location", tls.keystore_location)
            raise _refused(f"keystore_{field}", value, _reason(error, store.pem)) from error


def _trust(context: ssl.SSLContext, tls: TlsFields, purpose: ssl.Purpose) -> None:
    pem = trusted_pem(tls)
    if pem is None:
        context.load_default_certs(purpose)
        return
    try:
        # Comments between the certificates may be in any encoding.
        context.load_verify_locations(cadata=pem.encode("ascii", "backslashreplace").decode())
    except (ssl.SSLError, ValueError) as error:
        is_inline = bool(tls.truststore_certificates)
        field, value = ("certificates", "...") if is_inline else ("location", tls.truststore_location)
        raise _refused(f"truststore_{field}", value, f"no certificates in PEM: {error}") from error


def trusted_pem(tls: TlsFields) -> str | None:
    """The certificates of the configured trust store, or None without one.  Raises ConfigError."""
    if tls.truststore_certificates:
        return tls.truststore_certificates
    if not tls.truststore_location:
        return None
    content = _read("truststore_location", tls.truststore_location)
    return _certificates(tls, content) if tls.truststore_type == "PKCS12" else content.decode("latin-1")


def _certificates(tls: TlsFields, content: bytes) -> str:
    try:
        store = pkcs12.load_pkcs12(content, tls.truststore_password.value.encode() or None)
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = f"no PKCS12 store, or ssl.truststore.password does not fit it: {error}"
        raise _refused("truststore_location", tls.truststore_location, reason) from error
    entries = [entry for entry in (store.cert, *store.additional_certs) if entry is not None]
    return "".join(entry.certificate.public_bytes(Encoding.PEM).decode() for entry in entries)


def _read(field: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise _refused(field, path, error.strerror or str(error)) from error


def _reason(error: OSError, pem: bytes) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason not in (None, "BAD_DECRYPT", "PROBLEMS_GETTING_PASSWORD"):
        return error.reason.lower().replace("_", " ")
    missing = [what for what, label in _IN_A_STORE if label not in pem]
    if missing:
        return f"no {' and no '.join(missing)} in PEM in it; expected the private key and then its certificate chain"
    if b"ENCRYPTED" in pem:
        return f"the private key is encrypted, and ssl.key.password does not fit: {error}"
    return f"the private key or the certificates cannot be read: {error}"


def _refused(field: str, value: object, reason: str) -> ConfigError:
    return ConfigError(f"{TLS_KEY_OF_FIELD[field].name}={value}: {reason}")
