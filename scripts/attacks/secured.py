"""Listeners of every kind on each node: plaintext, TLS, passwords, and HTTP."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from harness.raw_connection import RawConnection
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.api import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.error_codes import ErrorCode
from scripts.attacks.quorum import HTTP
from tests.support.certificates import authority, client_of, issue

TLS: Final = "SECURE"
PASSWORDS: Final = "PASSWORDS"
DOORS: Final = ("CONTROLLER", "CLIENT", TLS, PASSWORDS, HTTP)
ANSWER_S = 10.0
USER, PASSWORD = "user", "pencil"


def _inline(pem: bytes) -> str:
    return pem.decode().replace("\n", "\\n")


_certificate = issue(authority(), "node", "127.0.0.1")
SETTINGS: Final = {
    "listener.security.protocol.map": (f"CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,{TLS}:SSL,{PASSWORDS}:SASL_PLAINTEXT"),
    "kraft.http.listener": "",
    "ssl.keystore.key": _inline(_certificate.private_key_pem.bytes()),
    "ssl.keystore.certificate.chain": _inline(_certificate.cert_chain_pems[0].bytes()),
    "ssl.truststore.certificates": _inline(authority().cert_pem.bytes()),
    "ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
}
"""The quorum gives each node a port for every listener, and one for HTTP."""


def known_client() -> ssl.SSLContext:
    """A client whose certificate is trusted."""
    return client_of(issue(authority(), "client"))


def client_hello() -> bytes:
    """The first message of a TLS handshake."""
    sent = ssl.MemoryBIO()
    tls = client_of(None).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


def is_answered(door: str, endpoint: Endpoint) -> bool:
    """Whether a client that knows how to behave gets an answer there.  Raises OSError."""
    if door == HTTP:
        with socket.create_connection((endpoint.host, endpoint.port), timeout=ANSWER_S) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200 ")
    with RawConnection(endpoint, ANSWER_S, known_client() if door == TLS else None) as raw:
        if door == PASSWORDS:
            raw.request(SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"))
            token = f"\0{USER}\0{PASSWORD}".encode()
            if raw.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(token)).error != ErrorCode.none:
                return False
        return raw.request(API_VERSIONS, ApiVersionsRequest()).error == ErrorCode.none
