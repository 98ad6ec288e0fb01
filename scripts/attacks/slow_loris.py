"""Connections that send a byte now and then, to each listener: plaintext, TLS, SASL and HTTP; and large requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import Final

from harness.raw_connection import RawConnection
from kraft_trio.wire.api import SASL_HANDSHAKE
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from scripts.attacks import secured
from scripts.attacks.arena import Arena, frame_of, refusable
from scripts.attacks.requests import versions_frame

SETTINGS: Final = secured.SETTINGS
CONNECTIONS = 60
"""On each listener of each node; HTTP has places for half as many."""
LARGE = 3
LARGE_BYTES = 16 * 1024**2
"""As many and as large as all memory for the requests of clients holds."""


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
        open_connections.enter_context(_large_requests(arena))
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


@contextmanager
def _large_requests(arena: Arena) -> Iterator[None]:
    """Large ones of clients, fast enough that no connection is taken for dead."""
    is_over = threading.Event()

    def send(connection: RawConnection) -> None:
        with refusable():
            connection.send_bytes(LARGE_BYTES.to_bytes(4, "big"))
            while not is_over.wait(0.1):
                connection.send_bytes(bytes(LARGE_BYTES // 800))
                arena.sent.bytes += LARGE_BYTES // 800

    with ExitStack() as open_connections:
        for node in arena.nodes:
            for _ in range(LARGE):
                connection = open_connections.enter_context(arena.introduced(node=node))
                thread = threading.Thread(target=send, args=(connection,))
                thread.start()
                open_connections.callback(thread.join)
        open_connections.callback(is_over.set)
        yield
