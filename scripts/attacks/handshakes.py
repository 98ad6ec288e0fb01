"""A flood of TLS handshakes, whole and abandoned, and of wrong passwords."""

from __future__ import annotations

import socket
from functools import partial
from typing import Final

from kraft_trio.wire.api import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from scripts.attacks import secured
from scripts.attacks.arena import Arena, refusable
from scripts.common.background import at_once
from tests.support.certificates import authority, client_of, foreign_authority, issue

SETTINGS: Final = secured.SETTINGS
AT_ONCE = 6
EACH = 150


def play(arena: Arena) -> None:
    """Half of the threads each, at the leader."""
    each = arena.count(EACH, EACH // 6)
    at_once([partial(_handshakes, arena, each), partial(_passwords, arena, each)] * (AT_ONCE // 2))
    for door in (secured.TLS, secured.PASSWORDS):
        assert arena.is_served(door), f"nobody else is served at {door}"


def _handshakes(arena: Arena, count: int) -> None:
    """With no certificate, an expired one, a foreign one, a trusted one; and one first message without a second."""
    certificates = (None, issue(authority(), "late", is_expired=True), issue(foreign_authority(), "foreign"))
    contexts = [*map(client_of, certificates), secured.known_client()]
    hello, endpoint = secured.client_hello(), arena.endpoint(secured.TLS)
    for number in range(count):
        with refusable(), socket.create_connection((endpoint.host, endpoint.port), timeout=5) as connection:
            if number % 5 == 4:
                connection.sendall(hello)
                continue
            with contexts[number % 5].wrap_socket(connection, server_hostname="127.0.0.1") as secure:
                secure.settimeout(5)
                if number % 5 < 3:
                    secure.recv(1)
        arena.sent.frames += 1
        arena.sent.bytes += len(hello)


def _passwords(arena: Arena, count: int) -> None:
    for number in range(count):
        with refusable(), arena.connect(secured.PASSWORDS, seconds=5) as connection:
            connection.request(SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"))
            token = f"\0{secured.USER}\0wrong {number}".encode()
            connection.send_request(SASL_AUTHENTICATE, SaslAuthenticateRequest(token))
