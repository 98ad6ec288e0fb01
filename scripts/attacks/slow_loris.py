"""Connections that send a byte now and then, to each listener: plaintext, TLS, SASL and HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import zip_longest
from typing import Final

from kraft_trio.wire.api import SASL_HANDSHAKE
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from scripts.attacks import secured
from scripts.attacks.arena import Arena, frame_of, refusable
from scripts.attacks.requests import versions_frame

SETTINGS: Final = secured.SETTINGS
CONNECTIONS = 60
"""On each listener of each node; HTTP has places for half as many."""


def play(arena: Arena) -> None:
    """All of the beginning but its last byte, one byte on each connection in turn; then wait with them open."""
    beginnings = {
        "CONTROLLER": versions_frame(),
        "CLIENT": versions_frame(),
        secured.TLS: secured.client_hello()[:60],
        secured.PASSWORDS: frame_of(SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN")),
        secured.HTTP: b"GET /livez HTTP/1.1\r\nHost: a\r\nX: ",
    }
    with ExitStack() as open_connections:
        connections = []
        for _ in range(arena.count(CONNECTIONS, CONNECTIONS // 6)):
            for door, beginning in beginnings.items():
                for node in arena.nodes:
                    with refusable():
                        connection = open_connections.enter_context(arena.connect(door, node, seconds=2))
                        connections.append((connection, beginning[:-1]))
        for bytes_in_turn in zip_longest(*(beginning for _, beginning in connections)):
            for (connection, _), byte in zip(connections, bytes_in_turn, strict=True):
                if byte is not None:
                    with refusable():
                        connection.send_bytes(bytes([byte]))
        arena.wait_for_commits(arena.count(200, 40))
        for door in beginnings:
            assert arena.is_served(door), f"nobody else is served at {door}"
