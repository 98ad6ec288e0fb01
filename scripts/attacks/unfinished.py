"""Frames of up to 100 MB that are never finished."""

from __future__ import annotations

import struct
from contextlib import ExitStack

from scripts.attacks.arena import Arena, refusable
from scripts.attacks.requests import versions_frame

CONNECTIONS = 12
FRAME_BYTES = 100 * 1024**2
PIECE = bytes(1024**2)


def play(arena: Arena) -> None:
    """All but the last byte of each frame, piece by piece on all connections in turn, as far as the node reads."""
    pieces = arena.count(FRAME_BYTES // len(PIECE), 40)
    with ExitStack() as open_connections:
        connections = []
        for _ in range(CONNECTIONS):
            connection = open_connections.enter_context(arena.connect(seconds=1))
            with refusable():
                connection.send_bytes(versions_frame())
                connection.wait_for_answers()
                connection.send_bytes(struct.pack(">i", FRAME_BYTES))
                connections.append(connection)
        for _ in range(pieces):
            for connection in list(connections):
                try:
                    connection.send_bytes(PIECE[:-1])
                except OSError:
                    connections.remove(connection)
        arena.wait_for_commits(20)
